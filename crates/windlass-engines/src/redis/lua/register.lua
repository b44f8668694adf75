-- register: lets a worker in, and lets through what waited for its handlers.
-- ARGV worker, its lease in microseconds, its card as JSON, its queues and its types (a line each), number of gates, gates
-- answers '1', or '' if the worker is known already
local worker, lease, card, queues, types = arg(), number_arg(), arg(), arg(), arg()
local row = key('worker:') .. worker
if redis.call('EXISTS', row) == 1 then
  return answer('')
end
write('HSET', row, 'card', card, 'queues', queues, 'types', types, 'since', NOW_DIGITS, 'beats', 0,
  'last_beat', NOW_DIGITS, 'expires', digits(NOW + lease))
write('SADD', key('workers'), worker)

-- A sweep does the rest, if there is more.
local LET_THROUGH_MAX = 5000
for _ = 1, number_arg() do
  let_through(arg(), LET_THROUGH_MAX)
end
return answer('1')
