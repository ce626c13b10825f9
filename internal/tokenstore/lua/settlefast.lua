-- The usual settlement, ahead of the functions that the others need: a holder's, whose hold ends and
-- for which nobody waits. It does what settle.lua does then.
if ARGV[8] ~= '0' and ARGV[10] == '0' and redis.call('exists', KEYS[3]) == 0 then
  redis.call('set', KEYS[1], ARGV[8] .. ' ' .. ARGV[8] .. ' ' .. ARGV[9] .. ' ' .. ARGV[6], 'px', ARGV[4])
  redis.call('del', KEYS[2])
  return ARGV[8]
end
