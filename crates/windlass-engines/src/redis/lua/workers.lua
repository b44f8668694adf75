-- workers: all workers that were not declared dead or let out.
-- answers for each: card, since, beats, last beat, end of its lease, how many jobs it holds, its id
local rows = {}
for _, worker in ipairs(redis.call('SMEMBERS', key('workers'))) do
  local row = redis.call('HMGET', key('worker:') .. worker, 'card', 'since', 'beats', 'last_beat', 'expires')
  row[6] = digits(redis.call('SCARD', key('held:') .. worker))
  row[7] = worker
  rows[#rows + 1] = row
end
return answer(rows)
