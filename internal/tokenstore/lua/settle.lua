-- Runs inside the commit's MULTI, behind the client's command: stores the token, issues the grant
-- of a blind write, and releases the hold or extends it.
-- ARGV: owner info lease ttl floor provider reserve grant(0: blind) seq keep(1: the hold goes on)
local owner, info, lease, ttl, floor, provider, reserve, grant, seq, keep = unpack(ARGV)
if grant == '0' then
  grant = newer((token()), floor)
  seq = '1'
end
local h
if keep == '1' then h = hold(grant) end
put(grant, grant, seq, provider, ttl)
if keep == '1' then
  occupy(owner, grant, h and h.since, '', info, lease)
else
  redis.call('del', H)
  handover(grant, grant, seq, provider, ttl, floor, reserve)
end
return grant
