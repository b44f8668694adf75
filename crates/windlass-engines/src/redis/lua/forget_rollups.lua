-- forget_rollups: deletes rollups past their retention, oldest minute first.
-- keys rollups, rollups:
-- ARGV the retention in microseconds, the maximum number of rows
-- answers {number of deleted rows, '1' if there are more or ''}
local kept, left = number_arg(), math.min(number_arg(), BATCH_MAX)
local before = digits(math.floor((NOW - kept) / 60000000))
local gone, more = 0, false
for _, minute in ipairs(redis.call('ZRANGEBYSCORE', key('rollups'), '-inf', '(' .. before, 'LIMIT', 0, left + 1)) do
  local fields = redis.call('HKEYS', key('rollups:') .. minute)
  if #fields <= left then
    write('UNLINK', key('rollups:') .. minute)
    write('ZREM', key('rollups'), minute)
    gone, left = gone + #fields, left - #fields
  else
    write_many('HDEL', key('rollups:') .. minute, {unpack(fields, 1, left)})
    gone, left, more = gone + left, 0, true
    break
  end
end
return answer({digits(gone), more and '1' or ''})
