-- Runs inside the commit's MULTI, behind the client's command: stores the token, issues the grant
-- of a blind write, and releases the hold or extends it.
-- ARGV: owner info lease ttl floor provider reserve grant(0: blind) seq keep(1: the hold goes on)
local owner, info, lease, ttl, floor, provider, reserve = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local grant, seq = tonumber(ARGV[8]), tonumber(ARGV[9])
if grant == 0 then
  local g = token()
  grant, seq = newer(g, floor), 1
end
local h
if ARGV[10] == '1' then h = hold(grant) end
put(grant, grant, seq, provider, ttl)
if ARGV[10] == '1' then
  occupy(owner, grant, h and h.since, '', info, lease)
else
  redis.call('del', H)
  handover(grant, grant, seq, provider, ttl, floor, reserve)
end
return string.format('%.0f', grant)
