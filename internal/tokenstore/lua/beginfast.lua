-- The usual begin, ahead of the functions that the others need: nobody holds, nobody waits, and the
-- caller has not waited. It does what begin.lua does then.
if ARGV[10] == '' and redis.call('exists', KEYS[2], KEYS[3]) == 0 then
  local v = redis.call('get', KEYS[1])
  local g, sg, ss, p = '0', '0', '0', false
  if v then g, sg, ss, p = string.match(v, '^(%d+) (%d+) (%d+) (%S+)$') end
  if not p or p == ARGV[6] then
    local t = redis.call('time')
    local n = string.format('%.0f', math.max(g + 1, ARGV[5] + 1, t[1] * 1000000 + t[2]))
    local e = ARGV[9]
    local current = p and (g == e or string.sub(e, 1, 1) == 's' and 's' .. sg .. ' ' .. ss == e)
    redis.call('set', KEYS[1], n .. ' ' .. sg .. ' ' .. ss .. ' ' .. ARGV[6], 'px', ARGV[4])
    local since = t[1] .. string.sub(1000 + math.floor(t[2] / 1000), 2)
    redis.call('set', KEYS[2], ARGV[1] .. '\n' .. n .. '\n' .. since .. '\n\n' .. ARGV[2], 'px', ARGV[3])
    return { 'granted', n, '0', current and '1' or '0' }
  end
end
