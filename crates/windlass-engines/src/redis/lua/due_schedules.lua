-- due_schedules: schedules that somebody has to look at, longest due first.
-- keys agenda
-- ARGV at most so many
-- answers as schedules_named.lua
local limit = number_arg()
return answer_schedules(redis.call('ZRANGEBYSCORE', key('agenda'), '-inf', NOW_DIGITS, 'LIMIT', 0, limit))
