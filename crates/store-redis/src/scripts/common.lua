-- Shared by all scripts; each is this text and its own.
-- ST-37: the clock is TIME of the server, read once per script.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- Exact text of a whole number; tostring would round what has more than 14 digits.
local function num(n) return string.format('%.0f', n) end

-- Takes n numbers of the sequence, all above `above`; returns the last, or nil and a message.
-- ST-9: a sequence that is absent or fell behind (a restart without persistence, a restore, a removed key) continues
-- at the server's microseconds, which no sequence of realistic use has reached.
local function take(sequence, n, above)
  local last = redis.pcall('INCRBY', sequence, n)
  if type(last) == 'table' then return nil, last.err end
  if last <= n or last - n < above then
    last = math.max(micros, above) + n
    redis.call('SET', sequence, num(last))
  end
  if last > 9007199254740991 then return nil, 'SPENT the sequence has no exact number left' end
  return last
end

-- ST-32: the parts of a member. Only headers are read, so a value of 1 MiB costs no copy.
local byte, sub = string.byte, string.sub
local function text_at(m, at)
  local tag, from, size = byte(m, at), nil, nil
  if not tag then return nil end
  if tag >= 0xa0 and tag <= 0xbf then
    from, size = at + 1, tag - 0xa0
  elseif tag == 0xd9 and #m > at then
    from, size = at + 2, byte(m, at + 1)
  elseif tag == 0xda and #m > at + 1 then
    local a, b = byte(m, at + 1, at + 2)
    from, size = at + 3, a * 256 + b
  elseif tag == 0xdb and #m > at + 3 then
    local a, b, c, d = byte(m, at + 1, at + 4)
    from, size = at + 5, ((a * 256 + b) * 256 + c) * 256 + d
  end
  if not from or from + size - 1 > #m then return nil end
  return from, from + size
end

local uint_sizes = { [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8 }
local function uint_at(m, at)
  local tag = byte(m, at)
  if not tag then return nil end
  if tag <= 0x7f then return tag, at + 1 end
  local size = uint_sizes[tag]
  if not size or at + size > #m then return nil end
  local n = 0
  for i = at + 1, at + size do n = n * 256 + byte(m, i) end
  return n, at + size + 1
end

-- Returns a table of the parts, or nil and what is wrong.
local function parse(m, key)
  if byte(m, 1) ~= 1 then return nil, 'MALFORMED unknown format tag' end
  if byte(m, 2) ~= 0x95 then return nil, 'MALFORMED not an array of five' end
  local key_from, key_end = text_at(m, 3)
  if not key_from then return nil, 'MALFORMED key' end
  if sub(m, key_from, key_end - 1) ~= key then return nil, 'MALFORMED record of another key' end
  local value_from, value_end = text_at(m, key_end)
  if not value_from then return nil, 'MALFORMED value' end
  local version_from, version_end = text_at(m, value_end)
  if not version_from then return nil, 'MALFORMED version' end
  local expiry, tombstone_at = uint_at(m, version_end)
  if not expiry then return nil, 'MALFORMED expiry' end
  local tombstone = byte(m, tombstone_at)
  if (tombstone ~= 0xc2 and tombstone ~= 0xc3) or tombstone_at ~= #m then
    return nil, 'MALFORMED tombstone'
  end
  return {
    member = m, value_from = value_from, value_to = value_end - 1,
    version_from = version_from, version_to = version_end - 1,
    expiry = expiry, tombstone = tombstone == 0xc3,
    live = tombstone == 0xc2 and (expiry == 0 or now < expiry),
  }
end

-- The current state of a record: a table with `score`, or nil and an error.
local absent = { score = 0, there = false, live = false }
local function current(record, key)
  local top = redis.pcall('ZREVRANGE', record, 0, 0, 'WITHSCORES')
  if top.err then return nil, top.err end
  if #top == 0 then return absent end
  local found, problem = parse(top[1], key)
  if not found then return nil, problem end
  found.score = tonumber(top[2])
  found.there = true
  return found
end
