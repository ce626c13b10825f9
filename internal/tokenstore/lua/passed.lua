-- Stands in a settlement's place behind a write that went unguarded while the lock provider could not be asked. What was
-- read before it is stale now: the newest grant is used up, once until somebody is granted the session again, and another
-- token counts as stored, which tells that by its seq.
-- ARGV: ttl
local ttl = ARGV[1]
local g, sg, ss, p = token()
if not p then return '0' end
local t = redis.call('time')
if sg ~= g or tonumber(ss) < 1e14 then g, ss = string.format('%.0f', g + 1), '0' end
put(g, g, string.format('%.0f', math.max(ss + 1, t[1] * 1000000 + t[2])), p, ttl)
unused(g, ttl)
return g
