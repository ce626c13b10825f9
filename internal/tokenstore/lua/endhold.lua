-- Ends a hold, uses its grant up and hands the session on: that of a grant that was acquired by itself,
-- or with grant "" whatever hold there is. A grant whose hold has ended by itself is used up, too, if it is still the newest.
-- Answers 1 and the hold, or 0.
-- ARGV: ttl floor provider reserve grant
local ttl, floor, provider, reserve, grant = unpack(ARGV)
local g, sg, ss, p = token()
local h = hold(g)
if p ~= provider or grant ~= '' and (g ~= grant or h and not apart(h)) then return { '0', '' } end
if not h and (grant == '' or isUnused(g)) then return { '0', '' } end
redis.call('del', H)
g = newer(g, floor)
put(g, sg, ss, provider, ttl)
unused(g, ttl)
handover(g, sg, ss, provider, ttl, floor, reserve)
return { h and '1' or '0', h and h.raw or '' }
