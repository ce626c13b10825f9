-- Extends the hold of a grant that was acquired by itself, whoever presents it, and takes one up again
-- whose lease has ended while nobody came, unless the lock is elsewhere: there it is given back by then. A hold that is
-- an owner's is left alone.
-- ARGV: owner(of a hold that is taken up again) info lease ttl grant provider
local owner, info, lease, ttl, grant, provider = unpack(ARGV)
local g, _, _, p = token()
local h = hold(g)
if g ~= grant or p ~= provider or h and not apart(h) or not h and not grants then return { 'lost', h and h.raw or '', g } end
if h then
  redis.call('pexpire', H, lease)
else
  occupy(owner, g, nil, '', info, lease)
end
-- The record must outlive the lease, however often it is renewed. Touching it makes commits under way
-- check again, so it is not done each time.
if redis.call('pttl', T) * 2 < tonumber(ttl) then redis.call('pexpire', T, ttl) end
return { 'renewed', '' }
