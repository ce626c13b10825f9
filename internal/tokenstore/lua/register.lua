-- begin.lua where a lock provider elsewhere has granted the session: the grant counts from now on, if it is newer than every
-- one so far. Else it is 'behind': its owner was overtaken, or the provider has begun to count anew.
-- After a change of provider all its grants count from a base on, which is kept beside the record: so they are
-- newer than those of the provider before. Without it they are behind.
-- ARGV: owner info lease ttl provider grant expected
local owner, info, lease, ttl, provider, grant, expected = unpack(ARGV)
local g, sg, ss, p = token()
if p and p ~= provider then return { 'provider', p } end
local B = string.sub(T, 1, -2) .. 'b'
local base = redis.call('get', B)
local n = base and string.format('%.0f', base + grant) or grant

-- What was read is current while its grant is the newest, or if it was read without one, while the
-- last token stored is the same.
local current = p and expected ~= '0' and
  (g == expected or string.sub(expected, 1, 1) == 's' and 's' .. sg .. ' ' .. ss == expected)
local continuous = current and '1' or p and '0' or redis.call('exists', H) == 1 and 'lost' or 'missing'

-- Who has read under that very grant takes it up again: its hold here was over, and that at the provider is not.
if tonumber(n) <= tonumber(g) and not (n == g and (isUnused(g) or expected == g and not hold(g))) then
  local h = hold(g)
  if n ~= g or not h or h.owner ~= owner then return { 'behind', g, base or '0' } end
  redis.call('pexpire', H, lease) -- said twice
  return { 'granted', n, sg == g and ss or '0', continuous }
end
put(n, sg, ss, provider, ttl)
if base then redis.call('pexpire', B, ttl) end
occupy(owner, n, nil, '', info, lease)
return { 'granted', n, sg == n and ss or '0', continuous }
