-- extend: extends a worker's lease, tells which of its jobs were asked to stop, and counts who else is heard. All heartbeats are counted:
-- whoever remembers more of them than a store does knows that it came back older than it was.
-- keys layout, stops:, worker:
-- ARGV worker, its lease in microseconds, what its own clock shows in microseconds, or -1
-- answers {'1', ids and tokens in turn (of some, if very many were asked to stop), how many heartbeats there were, its duties (a line
--         each), for each set of duties that others have: the duties, how many they are, how many of them stand before it}, or
--         {''} if the worker was declared dead or is unknown
local worker, lease, clock = arg(), number_arg(), number_arg()
local row = key('worker:') .. worker
local expires, dead, leaving, beats, types, duties, place, hearing =
  unpack(redis.call('HMGET', row, 'expires', 'dead', 'leaving', 'beats', 'types', 'duties', 'place', 'hearing'))
if not expires or dead or leaving then
  return answer({''})
end
-- A count that is damaged starts over.
write('HSET', row, 'beats', digits((tonumber(beats) or 0) + 1), 'last_heartbeat', NOW_DIGITS, 'expires', digits(NOW + lease))
write('HSET', key('layout'), 'beats', digits(BEATS + 1))
if clock >= 0 then
  write('HSET', row, 'ahead', digits(clock - NOW))
end
-- One that was let in before there were duties has none.
duties, place = duties or '', tonumber(place) or 0
local members = count_members(worker, place)
hear(worker, duties, place, tonumber(hearing) or 0)

-- While it was silent, a sweep may have parked its jobs for want of a handler. If there are many, a sweep does the rest.
if (tonumber(expires) or 0) <= NOW then
  local gates = {}
  for type in string.gmatch(types or '', '[^\n]+') do
    gates[#gates + 1] = NO_HANDLER .. type
  end
  write('HSET', key('layout'), 'arrivals', digits(ARRIVALS + 1))
  let_through_all(gates, BATCH_MAX)
end
local stops = fences_to_stop(worker, redis.call('SRANDMEMBER', key('stops:') .. worker, BATCH_MAX))
return answer({'1', stops, digits(BEATS + 1), duties, members})
