-- schedules_named: the schedules of these names.
-- keys those of its parts
-- ARGV number of names, names
-- answers when the next schedule that is not due yet has to be evaluated; for a page of due schedules when
--      its last schedule was due, or '', and the name of that schedule; and then name, version, last job or
--      '-', and record of each schedule that exists
local names = {}
for i = 1, number_arg() do
  names[i] = arg()
end
return answer_schedules(names, '')
