-- Raises the counter to a grant, if the lock is still the caller's and the grant is larger than every one before.
-- ARGV: value grant ttl → 'raised' | 'gone' | 'behind'
local value, grant, ttl = unpack(ARGV)
if redis.call('get', L) ~= value then return { 'gone' } end
if counter() >= tonumber(grant) then return { 'behind' } end
redis.call('set', C, grant, 'px', ttl)
return { 'raised' }
