-- Reads the token of a session for one who takes no hold. A record that is missing is made, so that a write
-- can be told from one on an earlier record; one that is half through its life gets a new one.
-- ARGV: ttl floor provider
local ttl, floor, provider = unpack(ARGV)
local v = redis.call('get', T)
if not v then
  local n = newer('0', floor)
  put(n, '0', '0', provider, ttl)
  return redis.call('get', T)
end
if redis.call('pttl', T) < ttl / 2 then redis.call('pexpire', T, ttl) end
return v
