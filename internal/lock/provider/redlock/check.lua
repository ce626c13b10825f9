-- Says whether the node takes part: 'in', or 'out' and for how many ms. It writes, so that a node which can't be written is found out.
-- ARGV: delay
local left = sitsout(tonumber(ARGV[1]))
redis.call('set', M, redis.call('get', M))
return { left > 0 and 'out' or 'in', tostring(left) }
