-- workers: workers that were not declared dead or let out, a page of them.
-- keys held:, worker:, workers
-- ARGV where to go on, 0 to begin
-- answers where to go on (0 at the end), how often a worker came, and for each: card, since, beats, last beat, end of its
--         lease, how many jobs it holds, its id, its queues and its types, a line each, and by how much its clock was ahead
local page = redis.call('SSCAN', key('workers'), arg(), 'COUNT', WORKERS_PAGE)
local rows = {}
for i, worker in ipairs(page[2]) do
  local row = redis.call('HMGET', key('worker:') .. worker, 'card', 'since', 'beats', 'last_heartbeat', 'expires', 'queues',
    'types', 'ahead')
  rows[i] = {row[1], row[2], row[3], row[4], row[5], digits(redis.call('SCARD', key('held:') .. worker)), worker, row[6],
    row[7], row[8]}
end
return answer({page[1], digits(ARRIVALS), rows})
