-- check.lua where a lock provider elsewhere grants: a write without a grant is refused, whatever it stands on. Nobody queues
-- here. A record that is missing stays so, but it is touched. A number that is used up may have been given before a failover that took
-- its registration back.
-- KEYS: token hold queue. ARGV: grant seq(0: the next) owner provider ttl
local T = KEYS[1]
local v = redis.call('get', T)
local g, sg, ss, p
if v then g, sg, ss, p = string.match(v, '^(%d+) (%d+) (%d+) (%S+)$') end
local verdict
if v and p ~= ARGV[4] then
  verdict = 'provider'
elseif ARGV[1] == '0' then
  verdict = 'ungranted'
elseif not v then
  verdict = 'missing'
elseif g ~= ARGV[1] or redis.call('get', KEYS[2]) == 'unused ' .. g then
  verdict = 'superseded'
elseif sg == g and ARGV[2] ~= '0' and tonumber(ss) >= tonumber(ARGV[2]) then
  verdict = 'stored'
else
  return 'good'
end
if v then
  redis.call('pexpire', T, ARGV[5])
else
  redis.call('set', T, '', 'px', 1)
  redis.call('del', T)
end
return { verdict, v or '', redis.call('get', KEYS[2]) or '' }
