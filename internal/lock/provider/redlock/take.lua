-- Takes the lock if nobody has it. ARGV: value lease delay
-- → 'taken' counter seconds microseconds | 'held' id ms-left | 'out' ms-left | 'dead'
local value, lease, delay = unpack(ARGV)
local left = sitsout(tonumber(delay))
if left > 0 then return { 'out', tostring(left) } end
if redis.call('exists', D) == 1 then return { 'dead' } end
if redis.call('set', L, value, 'nx', 'px', lease) then
  return { 'taken', redis.call('get', C) or '0', t[1], t[2] }
end
local id, most = string.match(redis.call('get', L), '^(%S+) (%d+)')
left = redis.call('pttl', L)
-- A clock that was set back would let a lock outlast its lease by as much.
if most and left > tonumber(most) then
  redis.call('pexpire', L, most)
  left = tonumber(most)
end
return { 'held', id or '', tostring(left) }
