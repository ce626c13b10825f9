-- A waiter gives up: it leaves the queue, or hands on what was just reserved for it.
-- ARGV: waiter owner info ttl floor provider reserve
local waiter, owner, info, ttl, floor, provider, reserve = unpack(ARGV)
if redis.call('zrem', Q, waiter .. '\n' .. owner .. '\n' .. info) == 1 then return 0 end
local g, sg, ss = token()
local h = hold(g)
if not h or h.waiter ~= waiter then return 0 end
redis.call('del', H)
handover(g, sg, ss, provider, ttl, floor, reserve)
return 1
