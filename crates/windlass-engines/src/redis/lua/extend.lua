-- extend: extends a worker's lease, returns which of its jobs were requested to stop, and counts the other
-- live workers.
-- All heartbeats are counted: a process that remembers more heartbeats than a store has counted knows that
-- the store came back older.
-- keys layout, stops:, worker:
-- ARGV worker, its lease in microseconds, the time of its own clock in microseconds, or -1
-- answers {'1', ids and tokens in turn (of a part, if very many jobs were requested to stop), the number of
--      heartbeats so far, its duties (a line each), for each set of duties that other workers have: the
--      duties, the number of these workers, how many of them have a lower ring position}, or {''} if the
--      worker was declared dead or is unknown
local worker, lease, clock = arg(), number_arg(), number_arg()
local row = key('worker:') .. worker
local expires, dead, leaving, beats, types, duties, place, hearing =
  unpack(redis.call('HMGET', row, 'expires', 'dead', 'leaving', 'beats', 'types', 'duties', 'place', 'hearing'))
if not expires or dead or leaving then
  return answer({''})
end
-- A damaged count starts over.
write('HSET', row, 'beats', digits((tonumber(beats) or 0) + 1), 'last_heartbeat', NOW_DIGITS, 'expires', digits(NOW + lease))
write('HSET', key('layout'), 'beats', digits(BEATS + 1))
if clock >= 0 then
  write('HSET', row, 'ahead', digits(clock - NOW))
end
-- A worker that was registered before duties existed has none.
duties, place = duties or '', tonumber(place) or 0
local members = count_members(worker, place)
count_as_live(worker, duties, place, tonumber(hearing) or 0)

-- While the worker was silent, a sweep may have parked its jobs because no live worker handled them. If there
-- are many, a sweep releases the rest.
if (tonumber(expires) or 0) <= NOW then
  local gates = {}
  for type in string.gmatch(types or '', '[^\n]+') do
    gates[#gates + 1] = NO_HANDLER .. type
  end
  write('HSET', key('layout'), 'arrivals', digits(ARRIVALS + 1))
  release_all_jobs(gates, BATCH_MAX)
end
local stops = fences_to_stop(worker, redis.call('SRANDMEMBER', key('stops:') .. worker, BATCH_MAX))
return answer({'1', stops, digits(BEATS + 1), duties, members})
