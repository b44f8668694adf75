-- rollups_of: the rollups of some minutes and types.
-- keys rollups:
-- ARGV number of rows, for each: minute, queue and type with a space between
-- answers for each the stored rollup, or ''
local rows = {}
for i = 1, number_arg() do
  local minute = digits(number_arg())
  rows[i] = redis.call('HGET', key('rollups:') .. minute, arg()) or ''
end
return answer(rows)
