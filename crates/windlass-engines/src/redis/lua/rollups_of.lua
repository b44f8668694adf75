-- rollups_of: some minutes of some types.
-- keys rollups:
-- ARGV number of rows, for each: minute, queue and type with a space between
-- answers for each what is kept, or ''
local rows = {}
for i = 1, number_arg() do
  local minute = digits(number_arg())
  rows[i] = redis.call('HGET', key('rollups:') .. minute, arg()) or ''
end
return answer(rows)
