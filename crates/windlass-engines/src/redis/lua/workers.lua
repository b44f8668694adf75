-- workers: a page of the workers that were neither declared dead nor released.
-- keys held:, worker:, workers
-- ARGV the cursor to go on from, 0 to begin
-- answers the cursor to go on from (0 at the end), the number of registrations so far, and for each worker:
--      card, since, number of heartbeats, last heartbeat, end of its lease, how many jobs it holds, its id,
--      its queues and its types, a line each, and by how much its clock was ahead
local page = redis.call('SSCAN', key('workers'), arg(), 'COUNT', WORKERS_PAGE)
local rows = {}
for i, worker in ipairs(page[2]) do
  local row = redis.call('HMGET', key('worker:') .. worker, 'card', 'since', 'beats', 'last_heartbeat', 'expires', 'queues',
    'types', 'ahead')
  rows[i] = {row[1], row[2], row[3], row[4], row[5], digits(redis.call('SCARD', key('held:') .. worker)), worker, row[6],
    row[7], row[8]}
end
return answer({page[1], digits(ARRIVALS), rows})
