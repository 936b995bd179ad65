-- ST-92: removes a blob. KEYS: fence, blob. Returns { 0 } | { 1 } | { 2, error }.
if redis.call('EXISTS', KEYS[1]) == 0 then return 'FENCED' end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'none' then return { 0 } end
if kind ~= 'string' then return { 2, 'WRONGTYPE the blob is a ' .. kind } end
redis.call('DEL', KEYS[2])
return { 1 }
