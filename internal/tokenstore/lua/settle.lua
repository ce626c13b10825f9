-- Runs inside the commit's MULTI, behind the client's command: stores the token, issues the grant
-- of a blind write, and releases the hold or extends it.
-- ARGV: owner info lease ttl floor provider reserve grant(0: blind) seq keep(1: the hold goes on; 2: it
-- stays as it is, and the write is the next one under its grant)
local owner, info, lease, ttl, floor, provider, reserve, grant, seq, keep = unpack(ARGV)
if grant == '0' then grant = newer((token()), floor) end
if keep == '2' then
  local _, sg, ss = token()
  seq = sg == grant and string.format('%.0f', ss + 1) or '1'
  put(grant, grant, seq, provider, ttl)
  return grant
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
