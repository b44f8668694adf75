-- rights: which commands a user lacks on the keys and channels of a namespace. Changes nothing. Needs Redis 7.
-- keys layout, and what lanes begin with
-- KEYS[1] what all names of keys begin with   KEYS[2] the same for ready lanes   KEYS[3] for scheduled lanes: whoever lacks the
-- rights to them may not even ask
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
