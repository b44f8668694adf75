-- extend: extends a worker's lease and tells which of its jobs were asked to stop. All heartbeats are counted: whoever
-- remembers more of them than a store does knows that it came back older than it was.
-- ARGV worker, its lease in microseconds
-- answers {'1', ids and tokens in turn, how many heartbeats there were}, or {''} if the worker was declared dead or is
--         unknown
local worker, lease = arg(), number_arg()
local row = key('worker:') .. worker
local expires, dead, beats, types = unpack(redis.call('HMGET', row, 'expires', 'dead', 'beats', 'types'))
if not expires or dead then
  return answer({''})
end
-- A count that is damaged starts over.
write('HSET', row, 'beats', digits((tonumber(beats) or 0) + 1), 'last_beat', NOW_DIGITS, 'expires', digits(NOW + lease))
write('HSET', key('layout'), 'beats', digits(BEATS + 1))

-- While it was silent, a sweep may have parked its jobs for want of a handler.
local LET_THROUGH_MAX = 5000
if (tonumber(expires) or 0) <= NOW then
  for type in string.gmatch(types or '', '[^\n]+') do
    let_through(NO_HANDLER .. type, LET_THROUGH_MAX)
  end
end
return answer({'1', fences_to_stop(worker), digits(BEATS + 1)})
