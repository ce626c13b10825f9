-- Deletes the lock if it is the caller's. ARGV: value channel
-- → 'released' and how many proxies wait for that, or 'gone'. Without a channel nobody is told.
local value, channel = unpack(ARGV)
if redis.call('get', L) ~= value then return { 'gone', '0' } end
redis.call('del', L)
if channel == '' then return { 'released', '0' } end
return { 'released', tostring(redis.call('publish', channel, string.match(value, '^%S+'))) }
