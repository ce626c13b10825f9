-- Deletes the lock if it is the caller's. ARGV: value channel late
-- → 'released' and how many proxies wait for that, or 'gone'. Without a channel nobody is told. late: for how many ms something that
-- was asked before may still come; it is to do nothing then.
local value, channel, late = unpack(ARGV)
if late ~= '0' then redis.call('set', D, '', 'px', late) end
if redis.call('get', L) ~= value then return { 'gone', '0' } end
redis.call('del', L)
if channel == '' then return { 'released', '0' } end
return { 'released', tostring(redis.call('publish', channel, string.match(value, '^%S+'))) }
