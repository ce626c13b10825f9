-- Carries a command out once: its reply is kept as long as its id lasts, and given to whoever says the
-- same again. Nothing is kept of a command that fails, for nothing was applied.
-- KEYS: the kept reply. ARGV: fingerprint ttl protocol(of the kept reply) command…
local kept, print, ttl = KEYS[1], ARGV[1], ARGV[2]
local typed = ARGV[3] == '3' and redis.setresp
local v = redis.call('get', kept)
if v then
  if string.sub(v, 1, #print) == print then return string.sub(v, #print + 1) end
  return redis.error_reply('FENCEONCE another command')
end

-- A double as the server writes it: since 7.2 by as few digits as tell it.
local function double(d)
  if d == math.huge then return 'inf' end
  if d == -math.huge then return '-inf' end
  for digits = (redis.REDIS_VERSION_NUM or 0) < 0x70200 and 17 or 1, 17 do
    local text = string.format('%.' .. digits .. 'g', d)
    if digits == 17 or tonumber(text) == d then return text end
  end
end

local function encode(r)
  local t = type(r)
  if t == 'string' then return '$' .. #r .. '\r\n' .. r .. '\r\n' end
  if t == 'number' then return ':' .. string.format('%.0f', r) .. '\r\n' end
  if t ~= 'table' then return typed and '_\r\n' or '$-1\r\n' end
  if r.ok then return '+' .. r.ok .. '\r\n' end
  if r.err then return '-' .. r.err .. '\r\n' end
  if r.double then return ',' .. double(r.double) .. '\r\n' end
  if r.set then
    local set = { '' }
    for member in pairs(r.set) do set[#set + 1] = encode(member) end
    set[1] = '~' .. #set - 1 .. '\r\n'
    return table.concat(set)
  end
  local all = { '*' .. #r .. '\r\n' }
  for i = 1, #r do all[i + 1] = encode(r[i]) end
  return table.concat(all)
end

-- A refusal in the store's own words: before 7.0 it says in which line of the script it refused, in the place of the first word's sign.
local function plain(r)
  local text, n = string.gsub(r.err, '^@user_script: ?%d+: %-?', '')
  if n == 0 then return r end
  return redis.error_reply(string.match(text, '^%u+ ') and text or 'ERR ' .. text)
end

-- What is kept is there before the command is: a store that is full refuses it before, not behind.
local r = redis.pcall('set', kept, '', 'px', ttl)
if r.err then return plain(r) end
if typed then redis.setresp(3) end
r = redis.pcall(unpack(ARGV, 4))
if type(r) == 'table' and r.err then
  redis.call('del', kept)
  return plain(r)
end
r = encode(r)
redis.call('set', kept, print .. r, 'px', ttl)
return r
