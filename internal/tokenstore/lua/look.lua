-- Reads the token of a session for one who takes no hold. A record that is missing, or in which no token is stored (it is of
-- an earlier version), gets a token to be seen, so that a write can be told from one on another record; one that is
-- half through its life gets a new one.
-- ARGV: ttl floor provider
local ttl, floor, provider = unpack(ARGV)
local g, sg, _, p = token()
if p and p ~= provider then return redis.call('get', T) end
if sg == '0' then
  put(p and g or newer('0', floor), '0', '0', provider, ttl)
elseif redis.call('pttl', T) < ttl / 2 then
  redis.call('pexpire', T, ttl)
end
return redis.call('get', T)
