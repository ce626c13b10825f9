-- Extends the lock if it is the caller's; takes it if it is free and nobody has been granted the session here since.
-- ARGV: value grant ttl lease delay → 'kept' | 'joined' | 'gone'
local value, grant, ttl, lease, delay = unpack(ARGV)
local has, newest = redis.call('get', L), counter()
if has == value then
  redis.call('pexpire', L, lease)
elseif has or newest > tonumber(grant) or sitsout(tonumber(delay)) > 0 or redis.call('exists', D) == 1 then
  return { 'gone' }
else
  redis.call('set', L, value, 'px', lease)
end
if newest < tonumber(grant) then
  redis.call('set', C, grant, 'px', ttl)
else
  redis.call('pexpire', C, ttl)
end
return { has and 'kept' or 'joined' }
