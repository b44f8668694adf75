-- append_deltas: what a worker has seen, for whoever folds. If nobody does, only the newest are kept. One is its number, a space, when it was
-- seen, a space, and core's words.
-- keys minute_deltas, minute_mark
-- ARGV so many are kept, number of deltas, for each: how many microseconds ago, what was seen
-- answers ''
local kept = number_arg()
local last = tonumber(redis.call('HGET', key('minute_mark'), 'last')) or 0
local deltas = {}
for i = 1, number_arg() do
  local at = NOW - number_arg()
  last = last + 1
  deltas[i] = table.concat({digits(last), digits(at), arg()}, ' ')
end
write_many('RPUSH', key('minute_deltas'), deltas)
write('LTRIM', key('minute_deltas'), digits(- kept), '-1')
write('HSET', key('minute_mark'), 'last', digits(last))
return answer('')
