-- Reads the token of a session for one who takes no hold. A record in which no token is stored yet, or that is missing,
-- gets one with seq 0 (stamped): so no two records of a session have one in common, and what was read
-- before a record was lost is never taken for current. One that is half through its life gets a new one.
-- ARGV: ttl floor provider
local ttl, floor, provider = unpack(ARGV)
local g, sg, _, p = token()
if p and p ~= provider then return redis.call('get', T) end
if sg == '0' then
  g, sg = stamped(p, g, floor)
  put(g, sg, '0', provider, ttl)
elseif redis.call('pttl', T) < ttl / 2 then
  redis.call('pexpire', T, ttl)
end
return redis.call('get', T)
