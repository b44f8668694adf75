-- list_schedules: a page of schedules by name.
-- keys schedule_names
-- ARGV after this name, or '' for the first, the maximum number of schedules
-- answers as schedules_named.lua
local after, limit = arg(), number_arg()
local from = after == '' and '-' or '(' .. after
return answer_schedules(redis.call('ZRANGEBYLEX', key('schedule_names'), from, '+', 'LIMIT', 0, limit), '')
