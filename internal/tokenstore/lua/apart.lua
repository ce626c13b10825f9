-- A grant that was acquired by itself belongs to whoever presents it: its hold's owner only says so.
local function apart(h) return string.sub(h.owner, 1, 6) == 'grant:' end
