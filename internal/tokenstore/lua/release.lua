-- Ends a hold and hands the session on. With revoke=1 the grant itself is used up, so that a
-- write under it is refused even when nobody else has come.
-- Grant 0 stands for whatever the owner holds.
-- ARGV: owner ttl floor provider reserve grant revoke
local owner, ttl, floor, provider, reserve, grant, revoke = unpack(ARGV)
local g, sg, ss, p = token()
local h = hold(g)
if grant == '0' and h and h.owner == owner then grant = g end
if g ~= grant or p ~= provider or h and h.owner ~= owner then return 0 end
if h then redis.call('del', H) end
if revoke == '1' then
  g = newer(g, floor)
  put(g, sg, ss, provider, ttl)
  unused(g, ttl)
end
handover(g, sg, ss, provider, ttl, floor, reserve)
return h and 1 or 0
