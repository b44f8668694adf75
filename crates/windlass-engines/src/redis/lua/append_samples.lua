-- append_samples: stores the samples of a worker for the next rollup. If no process rolls up, only the newest
-- samples are kept. A sample is its number, a space, when it was taken, a space, and core's text.
-- keys rollup_samples, rollup_watermark
-- ARGV how many samples are kept, number of samples, for each: how many microseconds ago it was taken, its
--      text
-- answers ''
local kept = number_arg()
local last = tonumber(redis.call('HGET', key('rollup_watermark'), 'last')) or 0
local samples = {}
for i = 1, number_arg() do
  local at = NOW - number_arg()
  last = last + 1
  samples[i] = table.concat({digits(last), digits(at), arg()}, ' ')
end
write_many('RPUSH', key('rollup_samples'), samples)
write('LTRIM', key('rollup_samples'), digits(- kept), '-1')
write('HSET', key('rollup_watermark'), 'last', digits(last))
return answer('')
