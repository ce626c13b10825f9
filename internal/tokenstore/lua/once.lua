-- Carries a command out once: its reply, as RESP2, is kept as long as its id lasts, and given to whoever
-- says the same again. Nothing is kept of a command that fails, for nothing was applied.
-- KEYS: the kept reply. ARGV: fingerprint ttl command…
local kept, print, ttl = KEYS[1], ARGV[1], ARGV[2]
local v = redis.call('get', kept)
if v then
  if string.sub(v, 1, #print) == print then return string.sub(v, #print + 1) end
  return redis.error_reply('FENCEONCE another command')
end

local function encode(r)
  local t = type(r)
  if t == 'string' then return '$' .. #r .. '\r\n' .. r .. '\r\n' end
  if t == 'number' then return ':' .. string.format('%.0f', r) .. '\r\n' end
  if t ~= 'table' then return '$-1\r\n' end
  if r.ok then return '+' .. r.ok .. '\r\n' end
  if r.err then return '-' .. r.err .. '\r\n' end
  local all = { '*' .. #r .. '\r\n' }
  for i = 1, #r do all[i + 1] = encode(r[i]) end
  return table.concat(all)
end

-- What is kept is there before the command is: a store that is full refuses it before, not behind.
redis.call('set', kept, '', 'px', ttl)
local r = redis.pcall(unpack(ARGV, 3))
if type(r) == 'table' and r.err then
  redis.call('del', kept)
  return r
end
r = encode(r)
redis.call('set', kept, print .. r, 'px', ttl)
return r
