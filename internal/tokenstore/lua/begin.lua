-- Takes the session for an owner, or says who holds it and queues the caller.
-- ARGV: owner info lease ttl floor provider reserve waiter("" does not queue) expected
local owner, info, lease, ttl, floor, provider, reserve, waiter = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local expected = tonumber(ARGV[9])
local g, sg, ss, p = token()
if p and p ~= provider then return { 'provider', p } end
local entry = waiter .. '\n' .. owner .. '\n' .. info

local function granted(n, continuous)
  local seq = 0
  if sg == n then seq = ss end
  return { 'granted', string.format('%.0f', n), string.format('%.0f', seq), continuous and '1' or '0' }
end

local h = hold(g)
if h and h.owner == owner then
  occupy(owner, g, h.waiter == '' and h.since, '', info, lease)
  redis.call('pexpire', T, ttl)
  if waiter ~= '' then redis.call('zrem', Q, entry) end
  return granted(g, g == expected)
end
if not h then
  local first = redis.call('zrange', Q, 0, 0)[1]
  if first and first ~= entry then
    handover(g, sg, ss, provider, ttl, floor, reserve)
    local last = g
    g, sg, ss, p = token()
    if g ~= last then h = hold(g) end
  end
end
if not h then
  local n = newer(g, floor)
  put(n, sg, ss, provider, ttl)
  occupy(owner, n, nil, '', info, lease)
  if waiter ~= '' then redis.call('zrem', Q, entry) end
  return granted(n, g == expected and g > 0)
end
local ahead = 0
if waiter ~= '' then
  ahead = redis.call('zrank', Q, entry)
  if not ahead then
    local last = redis.call('zrange', Q, -1, -1, 'withscores')
    local score = last[2] and tonumber(last[2]) + 1 or 1
    redis.call('zadd', Q, string.format('%.0f', score), entry)
    ahead = redis.call('zcard', Q) - 1
  end
  redis.call('pexpire', Q, ttl)
end
return { 'held', h.raw, tostring(redis.call('pttl', H)), tostring(ahead) }
