-- ST-1: the current members of many records, with the time.
-- KEYS: the records. ARGV: the most bytes to return.
-- Returns the time and per record: nothing | a member | { error } | 0 when the bytes did not suffice.
local room, results = tonumber(ARGV[1]), { now }
for i = 1, #KEYS do
  local top = redis.pcall('ZREVRANGE', KEYS[i], 0, 0)
  if top.err then
    results[i + 1] = { top.err }
  elseif #top == 0 then
    results[i + 1] = false
  elseif i > 1 and #top[1] > room then
    results[i + 1] = 0
  else
    room = room - #top[1]
    results[i + 1] = top[1]
  end
end
return results
