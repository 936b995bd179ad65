-- ST-92: lets a blob live longer. KEYS: fence, blob. ARGV: ttl in ms. Returns { 0 } | { 1, time, expiry } | { 2, error }.
if redis.call('EXISTS', KEYS[1]) == 0 then return 'FENCED' end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'none' then return { 0 } end
if kind ~= 'string' then return { 2, 'WRONGTYPE the blob is a ' .. kind } end
local before, expiry = redis.call('PEXPIRETIME', KEYS[2]), now + ARGV[1]
if before < expiry then redis.call('PEXPIREAT', KEYS[2], num(expiry)) else expiry = before end
return { 1, now, expiry }
