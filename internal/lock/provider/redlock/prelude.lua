-- One node's share of a session. KEYS: lock, counter, memory, dead.
-- lock: "id lease-in-ms holder" of the acquisition that has it here, under a TTL. counter: the newest grant raised here.
-- memory: until when the node sits out, in Unix ms; 0 when that is over. It belongs to the node, not to the session.
-- dead: there when the acquisition was given back, and something that it has asked may still be on its way.
local L, C, M, D = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local t = redis.call('time')

-- How many ms the node still sits out. One without a memory has lost what it knew, a lock maybe, and takes no part until
-- every lease from before is over. A clock that was set back does not make that longer than a delay.
local function sitsout(delay)
  local till = tonumber(redis.call('get', M))
  if till == 0 then return 0 end
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  if not till or till > now + delay then till = now + delay end
  if till <= now then till = 0 end
  redis.call('set', M, string.format('%.0f', till))
  return till == 0 and 0 or till - now
end

local function counter() return tonumber(redis.call('get', C) or '0') end
