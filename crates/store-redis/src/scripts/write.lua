-- ST-2, ST-33: any number of writes, each atomic on its own: all conditions are checked, then all mutations applied.
-- KEYS: fence, sequence, index, scans, due, then the record of every condition and mutation in order.
-- ARGV: domain, retry delay of the cleaner in ms, number of writes; per write: number of conditions, of mutations,
--   and of arguments that follow; per condition `m` key | `v` key version | `x` key value; per mutation
--   `p` key value ttl | `d` key.
-- Returns the time and per write { 0 } conflict | { 1, version... } applied | { 2, key, error } nothing happened.
if redis.call('EXISTS', KEYS[1]) == 0 then return 'FENCED' end
local sequence, index, scans, due = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
for i = 3, 5 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'zset' and kind ~= 'none' then return { 'WRONGTYPE ' .. KEYS[i] .. ' is a ' .. kind } end
end

-- The snapshots of scans under way; most of the time there are none.
local snapshots, lost = {}, false
local raw = redis.call('ZRANGE', scans, 0, -1, 'WITHSCORES')
for i = 1, #raw, 2 do
  local high, moment = string.match(raw[i], '^(%d+):(%d+)$')
  if high and now < tonumber(raw[i + 1]) then
    snapshots[#snapshots + 1] = { high = tonumber(high), text = high, moment = tonumber(moment) }
  else
    lost = true
  end
end

-- ST-34: keeps the current member and those that a snapshot sees, removes the rest.
local function prune(record)
  if #snapshots == 0 then
    redis.call('ZREMRANGEBYRANK', record, 0, -2)
    return
  end
  local keep = {}
  for _, snapshot in ipairs(snapshots) do
    keep[redis.call('ZCOUNT', record, '-inf', snapshot.text) - 1] = true
  end
  local rank = redis.call('ZCARD', record) - 2
  while rank >= 0 do
    local high = rank
    while rank >= 0 and not keep[rank] do rank = rank - 1 end
    if rank < high then redis.call('ZREMRANGEBYRANK', record, rank + 1, high) end
    rank = rank - 1
  end
end

local states = {}
local function state_of(record, key)
  local found, problem = states[record], nil
  if not found then
    found, problem = current(record, key)
    states[record] = found
  end
  return found, problem
end

local function holds(found, kind, expected)
  if kind == 'm' then return not found.live end
  if not found.live then return false end
  if kind == 'v' then return sub(found.member, found.version_from, found.version_to) == expected end
  return found.value_to - found.value_from + 1 == #expected
    and sub(found.member, found.value_from, found.value_to) == expected
end

local next_key, next_arg, mutation_count = 6, 4, 0

-- Runs one write; its keys and arguments begin at `k` and `a`.
local function run(conditions, mutations, k, a)
  local above = 0
  for _ = 1, conditions do
    local kind, key = ARGV[a], ARGV[a + 1]
    local found, problem = state_of(KEYS[k], key)
    if not found then return { 2, key, problem } end
    if not holds(found, kind, ARGV[a + 2]) then return { 0 } end
    a = a + (kind == 'm' and 2 or 3)
    k = k + 1
  end
  if mutations == 0 then return { 1 } end
  local first_k, first_a = k, a
  for _ = 1, mutations do
    local key = ARGV[a + 1]
    local found, problem = state_of(KEYS[k], key)
    if not found then return { 2, key, problem } end
    above = math.max(above, found.score)
    a = a + (ARGV[a] == 'p' and 4 or 2)
    k = k + 1
  end
  -- The first change. Whatever Redis may refuse (memory, read-only, disk) it refuses here, or not at all.
  local last, problem = take(sequence, mutations, above)
  if not last then return { 2, '', problem } end
  local number = last - mutations
  local result = { 1 }
  k, a = first_k, first_a
  for _ = 1, mutations do
    number = number + 1
    local version, record, key = num(number), KEYS[k], ARGV[a + 1]
    local found = states[record]
    states[record] = nil
    if ARGV[a] == 'p' then
      local ttl = tonumber(ARGV[a + 3])
      local expiry = ttl > 0 and now + ttl or 0
      redis.call('ZADD', record, version, '\1' .. cmsgpack.pack({ key, ARGV[a + 2], version, expiry, false }))
      if found.there then prune(record) end
      if not found.live then redis.call('ZADD', index, 0, key) end
      if expiry > 0 then redis.call('ZADD', due, num(expiry), sub(record, -64) .. key) end
      result[#result + 1] = version
      a = a + 4
    else
      if found.there and #snapshots == 0 then
        redis.call('DEL', record)
        redis.call('ZREM', index, key)
      elseif found.there and not found.tombstone then
        redis.call('ZADD', record, version, '\1' .. cmsgpack.pack({ key, '', version, 0, true }))
        prune(record)
        redis.call('ZADD', due, num(now + ARGV[2]), sub(record, -64) .. key)
      end
      a = a + 2
    end
    k = k + 1
  end
  mutation_count = mutation_count + mutations
  return result
end

local results = { now }
for _ = 1, tonumber(ARGV[3]) do
  local conditions, mutations = tonumber(ARGV[next_arg]), tonumber(ARGV[next_arg + 1])
  local arguments = tonumber(ARGV[next_arg + 2])
  results[#results + 1] = run(conditions, mutations, next_key, next_arg + 3)
  next_key = next_key + conditions + mutations
  next_arg = next_arg + 3 + arguments
end

-- Cleans up after records that expired or were deleted under a snapshot: more than this call can have added.
if lost then redis.call('ZREMRANGEBYSCORE', scans, '-inf', num(now)) end
local limit = math.min(8 + 2 * mutation_count, 512)
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', num(now), 'LIMIT', 0, limit)) do
  local record, key = ARGV[1] .. ':opaque:' .. sub(entry, 1, 64), sub(entry, 65)
  local found, again = current(record, key), nil
  if found and found.live then
    if found.expiry > 0 then again = found.expiry end
  elseif found then
    for _, snapshot in ipairs(snapshots) do
      if (found.tombstone and snapshot.high < found.score)
        or (found.there and not found.tombstone and snapshot.moment < found.expiry) then
        again = now + ARGV[2]
      end
    end
    if not again then
      redis.call('DEL', record)
      redis.call('ZREM', index, key)
    end
  end
  if again then redis.call('ZADD', due, num(again), entry) else redis.call('ZREM', due, entry) end
end
return results
