-- apply_fold: totals are booked up to here, what was folded goes, and these minutes become what they are; all of it only if nobody has
-- moved the mark since it was read.
-- keys minute_deltas, minute_mark, minutes, minutes:
-- ARGV version that was read, version from now on, totals, number of deltas that were folded, the highest of their numbers,
--      number of rows, for each: minute, queue and type with a space between, what is kept
-- answers '1', or '' if somebody has moved the mark
local read, version, booked, folded, upto = number_arg(), number_arg(), arg(), number_arg(), number_arg()
for _ = 1, number_arg() do
  local minute = digits(number_arg())
  local field, kept = arg(), arg()
  write('HSET', key('minutes:') .. minute, field, kept)
  write('ZADD', key('minutes'), minute, minute)
end
if (tonumber(redis.call('HGET', key('minute_mark'), 'version')) or 0) ~= read then
  writes = {}
  return answer('')
end

-- Whoever appends may have dropped some of them, as the oldest of too many. One that is damaged has no number, and goes with the rest.
local gone = 0
local oldest = folded > 0 and redis.call('LRANGE', key('minute_deltas'), '0', digits(folded - 1)) or {}
for _, delta in ipairs(oldest) do
  local digits_of = string.match(delta, '^(%d+) ') or ''
  local number = #digits_of <= 16 and tonumber(digits_of) or 0
  if number > upto then
    break
  end
  gone = gone + 1
end
if gone > 0 then
  write('LTRIM', key('minute_deltas'), digits(gone), '-1')
end
write('HSET', key('minute_mark'), 'version', digits(version), 'booked', booked)
return answer('1')
