-- ST-92: looks a blob up. KEYS: blob. Returns { 0, time } | { 1, time, expiry, bytes } | { 2, error }.
local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' and stored.err then return { 2, stored.err } end
if not stored then return { 0, now } end
return { 1, now, redis.call('PEXPIRETIME', KEYS[1]), stored }
