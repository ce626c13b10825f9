-- Gives a record to another lock provider. Its newest grant is one that nobody has, above all of the former providers, so
-- no write under any of theirs is applied any more, not even when the record comes back to them. The new one's
-- grants count from there: those of the store by its clock, those of others from the base.
-- ARGV: provider ttl force(1: though it is held) again(1: though it is that provider's already) dry(1: only say)
local provider, ttl, force, again, dry = unpack(ARGV)
local g, sg, _, p = token()
if not p then return { 'gone', '', '' } end
if p == provider and again ~= '1' then return { 'same', '', p } end
local h = hold(g)
if h and force ~= '1' then return { 'held', h.raw, p } end
if dry == '1' then return { 'migrated', '', p } end
local t, B = redis.call('time'), string.sub(T, 1, -2) .. 'b'
local n = string.format('%.0f', math.max(g + 1, sg + 1, t[1] * 1000000 + t[2]))
ttl = math.max(ttl, redis.call('pttl', T))
put(n, n, '0', provider, ttl)
if grants then redis.call('del', B) else redis.call('set', B, n, 'px', ttl) end
redis.call('del', H, Q)
return { 'migrated', '', p }
