-- read_triggers: completion triggers, in no order.
-- keys trigger_marks, triggers
-- ARGV 'all', 'marked' or 'named'; number of names, names
-- answers '1' if there are triggers at all, and then for each trigger its name, version, last job or '-', '1'
--      if it is marked, when it may be evaluated or '-', and record
local which, names = arg(), {}
for i = 1, number_arg() do
  names[i] = arg()
end
if which == 'all' then
  names = redis.call('HKEYS', key('triggers'))
elseif which == 'marked' then
  names = redis.call('SMEMBERS', key('trigger_marks'))
end
local rows = {redis.call('HLEN', key('triggers')) > 0 and '1' or ''}
for i, text in ipairs(get_many(key('triggers'), names)) do
  if text then
    local version, job, look_at, record = read_trigger(text)
    local is_marked = redis.call('SISMEMBER', key('trigger_marks'), names[i]) == 1
    for _, value in ipairs({names[i], digits(version), job, is_marked and '1' or '', look_at, record}) do
      rows[#rows + 1] = value
    end
  end
end
return answer(rows)
