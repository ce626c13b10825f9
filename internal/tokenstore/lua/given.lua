-- A lock provider elsewhere grants: no script makes a grant that anybody holds.
local grants = false

-- The newest grant when g is used up: nobody has this one. Should the provider give it out, it is not registered, and
-- the next one is asked for.
local function newer(g) return string.format('%.0f', g + 1) end

-- What a record without a stored token has for newest grant and stored one when somebody looks. Grants say nothing about
-- a record that was lost, so the stored one is the store's clock, or one above every such token that the caller has seen.
local function stamped(_, g, floor)
  local t = redis.call('time')
  return g, string.format('%.0f', math.max(floor + 1, t[1] * 1000000 + t[2]))
end
