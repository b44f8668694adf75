-- append_samples: what a worker has seen, for whichever process rolls up. If nobody does, only the newest are kept. One is its number, a space, when it was
-- seen, a space, and core's words.
-- keys rollup_samples, rollup_watermark
-- ARGV so many are kept, number of samples, for each: how many microseconds ago, what was seen
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
