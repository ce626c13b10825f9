-- Takes the session for an owner, or says who holds it and queues the caller.
-- A hold without its token key was granted on a record that is lost: 'lost' says so.
-- ARGV: owner info lease ttl floor provider reserve waiter("" does not queue) expected
-- where(parked: behind the waiter's BLPOP; beside: on another connection than the waiter's) most(waiters)
local owner, info, lease, ttl, floor, provider, reserve, waiter, expected, where, most = unpack(ARGV)
local parked = where == 'parked'
-- Nobody may be there any more to take what comes behind a BLPOP: the grant is short until it is renewed.
if parked and tonumber(reserve) < tonumber(lease) then lease = reserve end
local g, sg, ss, p = token()
if p and p ~= provider then return { 'provider', p } end
local entry = waiter .. '\n' .. owner .. '\n' .. info

-- What was read is current while its grant is the newest, or if it was read without one, while the
-- last token stored is the same.
local function current()
  return g == expected or string.sub(expected, 1, 1) == 's' and 's' .. sg .. ' ' .. ss == expected
end

local function grant()
  local continuous = p and current() and '1' or not p and redis.call('exists', H) == 1 and 'lost' or '0'
  local n = newer(g, floor)
  put(n, sg, ss, provider, ttl)
  occupy(owner, n, nil, '', info, lease)
  if where == 'beside' and parks(waiter) then unpark(waiter, reserve) end
  return { 'granted', n, '0', continuous }
end

-- Who waited and is no longer in line has given up, or was passed over: only what is reserved for
-- it counts. Its client may be gone, and nobody would give the session back.
local waited = parked and not redis.call('zrank', Q, entry)
if not waited and redis.call('exists', H, Q) == 0 then return grant() end

local h = hold(g)
if h and h.owner == owner then
  occupy(owner, g, h.waiter == '' and h.since, '', info, lease)
  redis.call('pexpire', T, ttl)
  if waiter ~= '' then redis.call('zrem', Q, entry) end
  return { 'granted', g, sg == g and ss or '0', current() and '1' or '0' }
end
if waited then return { 'held', h and h.raw or '', '0', '-1' } end
if not h then
  local first = redis.call('zrange', Q, 0, 0)[1]
  if first and first ~= entry and handover(g, sg, ss, provider, ttl, floor, reserve) then
    g = token()
    h = hold(g)
  end
end
if not h then
  if waiter ~= '' then redis.call('zrem', Q, entry) end
  return grant()
end
local ahead = 0
if waiter ~= '' then
  ahead = redis.call('zrank', Q, entry)
  if not ahead then
    local waiting = redis.call('zcard', Q)
    if waiting >= tonumber(most) then return { 'full', h.raw, tostring(waiting) } end
    local last = redis.call('zrange', Q, -1, -1, 'withscores')
    local score = last[2] and tonumber(last[2]) + 1 or 1
    redis.call('zadd', Q, string.format('%.0f', score), entry)
    ahead = waiting
  end
  redis.call('pexpire', Q, ttl)
end
return { 'held', h.raw, tostring(redis.call('pttl', H)), tostring(ahead) }
