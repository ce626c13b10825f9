-- Extends the lease of a hold. One whose lease ended is 'lapsed' while its grant is still the
-- newest (nobody has come in between), and is taken up again when the caller asks to resume.
-- ARGV: owner info lease ttl grant resume(1)
local g = token()
local h = hold(g)
if g ~= tonumber(ARGV[5]) then return { 'lost', h and h.raw or '' } end
if h then
  redis.call('pexpire', H, ARGV[3])
elseif ARGV[6] == '1' then
  occupy(ARGV[1], g, nil, '', ARGV[2], ARGV[3])
else
  return { 'lapsed', '' }
end
redis.call('pexpire', T, ARGV[4])
return { 'renewed', '' }
