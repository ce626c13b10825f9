-- Decides a commit. Good: nothing is changed. Not good: a key that the caller watches is touched,
-- so that its EXEC applies nothing: the token key, or for a blind write that finds the session
-- taken, or that another was stored since it was read without a hold, the queue, which leaves the holder's
-- own WATCH clean. Sent as EVAL, never by its digest:
-- a check that the server does not know must not let the write behind it through.
-- KEYS: token hold queue. ARGV: grant(0: blind) seq(0: the next) owner provider ttl stored(under which it was read; "": blind)
local T, H, Q = KEYS[1], KEYS[2], KEYS[3]
local v = redis.call('get', T)
local g, sg, ss, p
if v then g, sg, ss, p = string.match(v, '^(%d+) (%d+) (%d+) (%S+)$') end
local verdict, grant = 'good', tonumber(ARGV[1])
if p and p ~= ARGV[4] then
  verdict = 'provider'
elseif grant > 0 then
  if not v then
    verdict = 'missing'
  elseif g ~= ARGV[1] then
    verdict = 'superseded'
  elseif sg == g and ARGV[2] ~= '0' and tonumber(ss) >= tonumber(ARGV[2]) then
    verdict = 'stored'
  end
elseif ARGV[6] ~= '' and not v then
  verdict = 'missing'
elseif ARGV[6] ~= '' and sg .. ' ' .. ss ~= ARGV[6] then
  verdict = 'changed'
else
  local h = redis.call('get', H)
  if h and g then
    local owner, hg = string.match(h, '^([^\n]*)\n(%d+)\n')
    if hg == g and owner ~= ARGV[3] then verdict = 'held' end
  end
  if verdict == 'good' and redis.call('exists', Q) == 1 then verdict = 'queued' end
end
if verdict == 'good' then return verdict end
if grant == 0 and verdict ~= 'provider' then
  redis.call('zadd', Q, 0, '')
  redis.call('zrem', Q, '')
elseif v then
  redis.call('pexpire', T, ARGV[5])
else
  local t = redis.call('time')
  redis.call('set', T, string.format('%.0f 0 0 %s', math.max(grant + 1, t[1] * 1000000 + t[2]), ARGV[4]), 'px', ARGV[5])
end
return { verdict, v or '', redis.call('get', H) or '' }
