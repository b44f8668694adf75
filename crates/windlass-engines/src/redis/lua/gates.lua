-- gates: the names of gates that jobs wait behind. Suspects wait behind none of them: they have lanes.
-- keys gates
-- ARGV after this gate, or '' for the first; the maximum number of gates
-- answers gates
local after, limit = arg(), number_arg()
local from = after == '' and '-' or '(' .. after
return answer(redis.call('ZRANGEBYLEX', key('gates'), from, '+', 'LIMIT', 0, limit))
