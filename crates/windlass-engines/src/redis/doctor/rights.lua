-- rights: which commands a user lacks on the keys and channels of a namespace. Changes nothing. Needs Redis
-- 7.
-- keys layout, and the prefixes of lanes
-- KEYS[1] the prefix of all keys   KEYS[2] the prefix of ready lanes   KEYS[3] the prefix of scheduled lanes:
--      a user without rights to these keys may not even run this script
-- ARGV commands
-- answers the commands that are refused
local refused = {}
for _, command in ipairs(ARGV) do
  local name = KEYS[1] .. 'layout'
  local allowed
  if command == 'EVAL' or command == 'EVALSHA' then
    allowed = redis.acl_check_cmd(command, '', '1', name)
  else
    allowed = redis.acl_check_cmd(command, name, name, name)
  end
  if not allowed then refused[#refused + 1] = command end
end
return refused
