-- register: registers a worker, and releases jobs that waited for its handlers.
-- keys layout, worker:, workers
-- ARGV worker, its lease in microseconds, its card as JSON, its queues, its types and its duties (a line
--      each), its ring position, number of gates, gates
-- answers {'1', '1' if more jobs may wait for its handlers, or ''}, or {''} if the worker id is known already
local worker, lease, card, queues, types = arg(), number_arg(), arg(), arg(), arg()
local duties, place = arg(), number_arg()
local row = key('worker:') .. worker
if redis.call('EXISTS', row) == 1 then
  return answer({''})
end
local gates = {}
for i = 1, number_arg() do
  gates[i] = arg()
end
write('HSET', row, 'card', card, 'queues', queues, 'types', types, 'since', NOW_DIGITS, 'beats', 0,
  'last_heartbeat', NOW_DIGITS, 'expires', digits(NOW + lease), 'duties', duties, 'place', digits(place), 'hearing',
  digits(math.floor(lease / 2)))
count_as_live(worker, duties, place, math.floor(lease / 2))
write('SADD', key('workers'), worker)
write('HSET', key('layout'), 'arrivals', digits(ARRIVALS + 1))

return answer({'1', release_all_jobs(gates, BATCH_MAX) and '1' or ''})
