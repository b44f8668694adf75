-- schedules_named: the schedules of these names.
-- keys those of its parts
-- ARGV number of names, names
-- answers when somebody has to look at one next; when that is for the last of a page of what is due, or '', and its name; and then
--         name, version, last job or '-', and record of each that is there
local names = {}
for i = 1, number_arg() do
  names[i] = arg()
end
return answer_schedules(names, '')
