-- rollup_input: the watermark, the oldest samples of workers, and the current totals.
-- keys counts, rollup_samples, rollup_watermark
-- ARGV the maximum number of samples, number of types, types
-- answers {version or '' if there was no rollup yet, the totals at the watermark, samples, for each type six
--      totals in turn}
local limit = number_arg()
local watermark = redis.call('HMGET', key('rollup_watermark'), 'version', 'booked')
local samples = limit > 0 and redis.call('LRANGE', key('rollup_samples'), '0', digits(limit - 1)) or {}
local fields = {}
for _ = 1, number_arg() do
  local type = digits(number_arg())
  for _, what in ipairs({'enqueued', 'succeeded', 'retried', 'dead', 'cancelled', 'started_over'}) do
    fields[#fields + 1] = type .. ':' .. what
  end
end
local totals = get_many(key('counts'), fields)
for i = 1, #fields do
  totals[i] = digits(tonumber(totals[i]) or 0)
end
return answer({watermark[1] or '', watermark[2] or '', samples, totals})
