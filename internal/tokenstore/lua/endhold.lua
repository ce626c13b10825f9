-- Ends a hold, uses its grant up and hands the session on: that of a grant that was acquired by itself,
-- or with grant "" whatever hold there is. Answers 1 and the hold, or 0.
-- ARGV: ttl floor provider reserve grant
local ttl, floor, provider, reserve, grant = unpack(ARGV)
local g, sg, ss, p = token()
local h = hold(g)
if not h or p ~= provider or grant ~= '' and (g ~= grant or not apart(h)) then return { '0', '' } end
redis.call('del', H)
g = newer(g, floor)
put(g, sg, ss, provider, ttl)
unused(g, ttl)
handover(g, sg, ss, provider, ttl, floor, reserve)
return { '1', h.raw }
