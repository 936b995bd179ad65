-- Opens a new fence and closes the old one: what was sent under the old one and has not run by now never will.
-- KEYS: sequence, old fence (or the sequence again when there is none). ARGV: domain, life of the fence in ms.
local number, problem = take(KEYS[1], 1, 0)
if not number then return { problem } end
-- A user that may not run one of the write commands is found out here, before a script could stop half-way.
local probe = ARGV[1] .. ':probe'
redis.call('SET', probe, '1', 'PXAT', num(now + 1000))
redis.call('GET', probe)
redis.call('PEXPIREAT', probe, num(now + 1000))
redis.call('PEXPIRETIME', probe)
redis.call('TYPE', probe)
redis.call('EXISTS', probe)
redis.call('DEL', probe)
redis.call('ZADD', probe, 0, 'a', 0, 'b', 0, 'c', 0, 'd')
redis.call('ZCARD', probe)
redis.call('ZSCORE', probe, 'a')
redis.call('ZCOUNT', probe, '-inf', 0)
redis.call('ZRANGE', probe, 0, -1)
redis.call('ZRANGEBYLEX', probe, '-', '+')
redis.call('ZRANGEBYSCORE', probe, '-inf', 0)
redis.call('ZREVRANGE', probe, 0, 0)
redis.call('ZREVRANGEBYSCORE', probe, 0, '-inf')
redis.call('ZREM', probe, 'a')
redis.call('ZREMRANGEBYRANK', probe, 0, 0)
redis.call('ZREMRANGEBYSCORE', probe, '-inf', 0)
local fence = ARGV[1] .. ':fence:' .. num(number)
redis.call('SET', fence, '1', 'PXAT', num(now + ARGV[2]))
if KEYS[2] ~= KEYS[1] then redis.call('DEL', KEYS[2]) end
return fence
