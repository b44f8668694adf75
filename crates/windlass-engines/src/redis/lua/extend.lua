-- extend: extends a worker's lease and tells which of its jobs were asked to stop. All heartbeats are counted: whoever
-- remembers more of them than a store does knows that it came back older than it was.
-- ARGV worker, its lease in microseconds
-- answers {'1', ids and tokens in turn, how many heartbeats there were}, or {''} if the worker was declared dead or is
--         unknown
local worker, lease = arg(), number_arg()
local row = key('worker:') .. worker
local known = redis.call('HMGET', row, 'expires', 'dead')
if not known[1] or known[2] then
  return answer({''})
end
if not tonumber(redis.pcall('HINCRBY', row, 'beats', 1)) then
  -- It is damaged, and starts over.
  redis.call('HSET', row, 'beats', 1)
end
redis.call('HSET', row, 'last_beat', NOW_DIGITS, 'expires', digits(NOW + lease))

-- While it was silent, a sweep may have parked its jobs for want of a handler.
local LET_THROUGH_MAX = 5000
if (tonumber(known[1]) or 0) <= NOW then
  local types = redis.call('HGET', row, 'types') or ''
  for type in string.gmatch(types, '[^\n]+') do
    let_through(NO_HANDLER .. type, LET_THROUGH_MAX)
  end
end
return answer({'1', fences_to_stop(worker), digits(redis.call('HINCRBY', key('layout'), 'beats', 1))})
