-- Shared by every script but the checks, behind clock.lua or given.lua. KEYS: token, hold, queue of one session. Grants
-- and seqs stay strings: formatting a number of 16 digits costs as much as a call to the store.
local T, H, Q = KEYS[1], KEYS[2], KEYS[3]

-- The token key: "newest-grant stored-grant stored-seq provider". A missing one reads as zeros.
local function token()
  local v = redis.call('get', T)
  if not v then return '0', '0', '0', false end
  return string.match(v, '^(%d+) (%d+) (%d+) (%S+)$')
end

local function put(g, sg, ss, provider, ttl)
  redis.call('set', T, g .. ' ' .. sg .. ' ' .. ss .. ' ' .. provider, 'px', ttl)
end

-- The hold key: "owner\ngrant\nsince\nwaiter\ninfo", since in Unix milliseconds. It counts only
-- for the newest grant: one whose token key was lost or superseded protects nobody. waiter is set
-- while a hand-over is reserved and not yet taken up.
local function hold(g)
  local v = redis.call('get', H)
  if not v then return nil end
  local owner, hg, since, waiter, info = string.match(v, '^([^\n]*)\n(%d+)\n(%d+)\n([^\n]*)\n(.*)$')
  if hg ~= g then return nil end
  return { owner = owner, since = since, waiter = waiter, info = info, raw = v }
end

-- since defaults to now.
local function occupy(owner, g, since, waiter, info, px)
  if not since then
    local t = redis.call('time')
    since = t[1] .. string.sub(1000 + math.floor(t[2] / 1000), 2)
  end
  redis.call('set', H, owner .. '\n' .. g .. '\n' .. since .. '\n' .. waiter .. '\n' .. info, 'px', px)
end

-- Ends the BLPOP of a waiter that waits at the store.
local function unpark(waiter, reserve)
  local w = string.sub(Q, 1, -2) .. 'w:' .. waiter
  redis.call('rpush', w, '')
  redis.call('pexpire', w, reserve)
end

-- A waiter is "proxy.n", which is woken over its proxy's channel, or "proxy.nb", which blocks at
-- the store. Either is gone when nobody listens to the channel.
local function parks(waiter) return string.sub(waiter, -1) == 'b' end

-- Gives the session to the first waiter whose proxy still listens, with a grant of its own and
-- for a short reservation; returns its queue entry. A queue entry: "waiter\nowner\ninfo".
local function handover(g, sg, ss, provider, ttl, floor, reserve)
  while grants do
    local e = redis.call('zrange', Q, 0, 0)[1]
    if not e then return nil end
    redis.call('zrem', Q, e)
    local waiter, proxy, owner, info = string.match(e, '^(([^.\n]*)%.%d+b?)\n([^\n]*)\n(.*)$')
    local n, channel, parked = newer(g, floor), 'fence-proxy:wake:' .. proxy, parks(waiter)
    local there
    if parked then
      there = redis.call('pubsub', 'numsub', channel)[2]
    else
      there = redis.call('publish', channel, waiter .. ' ' .. n)
    end
    if there > 0 then
      put(n, sg, ss, provider, ttl)
      occupy(owner, n, nil, waiter, info, reserve)
      if parked then unpark(waiter, reserve) end
      return e
    end
  end
end
