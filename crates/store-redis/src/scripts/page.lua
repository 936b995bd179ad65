-- ST-5, ST-35: what a snapshot sees of some records, as many as fit.
-- KEYS: scans, then the records. ARGV: snapshot, its high water, its next deadline in ms from now, its last deadline
--   in ms of the epoch, the most bytes, and what follows when all records fit: `more` pages, `end`, or `only` page.
-- Returns nothing when the snapshot is lost, else the time and per record: nothing | a member | { error }.
local deadline = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not deadline or tonumber(deadline) <= now then return false end
local room, results, fits = tonumber(ARGV[5]), { now }, true
for i = 2, #KEYS do
  local top = redis.pcall('ZREVRANGEBYSCORE', KEYS[i], ARGV[2], '-inf', 'LIMIT', 0, 1)
  if top.err then
    results[i] = { top.err }
  elseif #top == 0 then
    results[i] = false
  else
    room = room - #top[1] - 16
    if room < 0 then
      fits = false
      -- The first is returned in any case: the caller ends its page before it, or says that it is too long.
      if i > 2 then break end
    end
    results[i] = top[1]
  end
end
if fits and ARGV[6] == 'only' then
  redis.call('ZREM', KEYS[1], ARGV[1])
elseif fits and ARGV[6] == 'end' then
  -- The answer may be lost and this page asked for again, so the snapshot lingers for a moment.
  redis.call('ZADD', KEYS[1], num(math.min(now + 2000, ARGV[4])), ARGV[1])
else
  redis.call('ZADD', KEYS[1], num(math.min(now + ARGV[3], ARGV[4])), ARGV[1])
end
return results
