-- ST-92: stores a blob once. KEYS: fence, blob. ARGV: bytes, ttl in ms.
-- Returns { 0 } conflict | { 1, time, expiry } | { 2, error }.
if redis.call('EXISTS', KEYS[1]) == 0 then return 'FENCED' end
local stored = redis.pcall('GET', KEYS[2])
if type(stored) == 'table' and stored.err then return { 2, stored.err } end
local expiry = now + ARGV[2]
if not stored then
  redis.call('SET', KEYS[2], ARGV[1], 'PXAT', num(expiry))
  return { 1, now, expiry }
end
if stored ~= ARGV[1] then return { 0 } end
local before = redis.call('PEXPIRETIME', KEYS[2])
if before < expiry then redis.call('PEXPIREAT', KEYS[2], num(expiry)) else expiry = before end
return { 1, now, expiry }
