-- apply_rollup: moves the watermark of the totals, deletes the samples that were rolled up, and writes the
-- new rollups; all of it only if no process has moved the watermark since it was read.
-- keys rollup_samples, rollup_watermark, rollups, rollups:
-- ARGV version that was read, new version, totals, number of samples that were rolled up, the highest of
--      their numbers, number of rows, for each: minute, queue and type with a space between, the rollup to
--      store
-- answers '1', or '' if another process has moved the watermark
local read, version, booked, rolled_up, upto = number_arg(), number_arg(), arg(), number_arg(), number_arg()
for _ = 1, number_arg() do
  local minute = digits(number_arg())
  local field, kept = arg(), arg()
  write('HSET', key('rollups:') .. minute, field, kept)
  write('ZADD', key('rollups'), minute, minute)
end
if (tonumber(redis.call('HGET', key('rollup_watermark'), 'version')) or 0) ~= read then
  writes = {}
  return answer('')
end

-- A worker that appends samples may have dropped some of these, as the oldest of too many. A damaged sample
-- has no number, and is deleted with the rest.
local gone = 0
local oldest = rolled_up > 0 and redis.call('LRANGE', key('rollup_samples'), '0', digits(rolled_up - 1)) or {}
for _, sample in ipairs(oldest) do
  local digits_of = string.match(sample, '^(%d+) ') or ''
  local number = #digits_of <= 16 and tonumber(digits_of) or 0
  if number > upto then
    break
  end
  gone = gone + 1
end
if gone > 0 then
  write('LTRIM', key('rollup_samples'), digits(gone), '-1')
end
write('HSET', key('rollup_watermark'), 'version', digits(version), 'booked', booked)
return answer('1')
