-- Extends the lease of a hold. One whose lease ended is 'lapsed' while its grant is still the
-- newest (nobody has come in between), and is taken up again when the caller asks to resume. One
-- that is 'lost' comes with the holder and the newest grant (0: the record is missing).
-- The token key is left alone, for touching it would dirty the fence that stands since the read; its
-- TTL is twice max_hold at least, and counts from the grant.
-- ARGV: owner info lease ttl grant resume(1)
local owner, info, lease, _, grant, resume = unpack(ARGV)
local g = token()
local h = hold(g)
if g ~= grant or isUnused(g) then return { 'lost', h and h.raw or '', g } end
if h then
  redis.call('pexpire', H, lease)
elseif resume == '1' then
  occupy(owner, g, nil, '', info, lease)
else
  return { 'lapsed', '' }
end
return { 'renewed', '' }
