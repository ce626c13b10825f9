-- Ends a hold and hands the session on. With revoke=1 the grant itself is used up, so that a
-- write under it is refused even when nobody else has come.
-- ARGV: owner ttl floor provider reserve grant revoke
local owner, ttl, floor, provider, reserve, grant, revoke = unpack(ARGV)
local g, sg, ss, p = token()
if g ~= grant or p ~= provider then return 0 end
local h = hold(g)
if h and h.owner ~= owner then return 0 end
if h then redis.call('del', H) end
if revoke == '1' then
  g = newer(g, floor)
  put(g, sg, ss, provider, ttl)
end
handover(g, sg, ss, provider, ttl, floor, reserve)
return h and 1 or 0
