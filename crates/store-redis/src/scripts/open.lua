-- ST-5: fixes a snapshot and lists the first keys.
-- KEYS: sequence, index, scans. ARGV: idle life of a snapshot in ms, most snapshots, from, to, number of keys.
-- Returns { high water, time, key... }, or { error }.
for i = 2, 3 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'zset' and kind ~= 'none' then return { 'WRONGTYPE ' .. KEYS[i] .. ' is a ' .. kind } end
end
local high, problem = take(KEYS[1], 1, 0)
if not high then return { problem } end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', num(now))
local surplus = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[2])
if surplus >= 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, surplus) end
redis.call('ZADD', KEYS[3], num(now + ARGV[1]), num(high) .. ':' .. num(now))
local result = { num(high), now }
for _, key in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], ARGV[3], ARGV[4], 'LIMIT', 0, ARGV[5])) do
  result[#result + 1] = key
end
return result
