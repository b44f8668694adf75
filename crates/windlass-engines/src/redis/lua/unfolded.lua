-- unfolded: up to where totals are booked, the oldest of what workers have seen, and what totals are now.
-- keys counts, minute_deltas, minute_mark
-- ARGV at most so many of what workers have seen, number of types, types
-- answers {version or '' if nobody has folded, what is booked, deltas, for each type six totals in turn}
local limit = number_arg()
local mark = redis.call('HMGET', key('minute_mark'), 'version', 'booked')
local deltas = limit > 0 and redis.call('LRANGE', key('minute_deltas'), '0', digits(limit - 1)) or {}
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
return answer({mark[1] or '', mark[2] or '', deltas, totals})
