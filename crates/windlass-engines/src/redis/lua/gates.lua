-- gates: gates that somebody waits behind, by name. Suspects wait behind none of them: they have lanes.
-- keys gates
-- ARGV after this one, or '' for the first; at most so many
-- answers gates
local after, limit = arg(), number_arg()
local from = after == '' and '-' or '(' .. after
return answer(redis.call('ZRANGEBYLEX', key('gates'), from, '+', 'LIMIT', 0, limit))
