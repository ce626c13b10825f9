-- A lock provider elsewhere grants: no script makes a grant that anybody holds.
local grants = false

-- The newest grant when g is used up: nobody has this one.
local function newer(g) return string.format('%.0f', g + 1) end

-- The provider may give that very number to the next in line, whose place it may be, or may have given it before a failover that took
-- its registration back. So the hold key says that it is nobody's until it is registered; where that is lost, the next in line
-- has to ask again.
local function unused(g, ttl) redis.call('set', KEYS[2], 'unused ' .. g, 'px', ttl) end
local function isUnused(g) return redis.call('get', KEYS[2]) == 'unused ' .. g end

-- What a record without a stored token has for newest grant and stored one when somebody looks. Grants say nothing about
-- a record that was lost, so the stored one is the store's clock, or one above every such token that the caller has seen.
local function stamped(_, g, floor)
  local t = redis.call('time')
  return g, string.format('%.0f', math.max(floor + 1, t[1] * 1000000 + t[2]))
end
