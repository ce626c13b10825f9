-- The store itself grants.
local grants = true

-- A grant is the larger of last + 1, the store's clock in microseconds and one above every
-- grant that the caller has ever seen: it grows across flushes, failovers and clock steps.
local function newer(g, floor)
  local t = redis.call('time')
  return string.format('%.0f', math.max(g + 1, floor + 1, t[1] * 1000000 + t[2]))
end

local function unused() end
local function isUnused() end

-- What a record without a stored token has for newest grant and stored one when somebody looks; p is false if there
-- is no record.
local function stamped(p, g, floor)
  if not p then g = newer('0', floor) end
  return g, g
end
