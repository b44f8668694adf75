-- behind: the oldest jobs behind a gate.
-- keys gate:
-- ARGV gate, the maximum number of jobs
-- answers ids
local gate, limit = arg(), number_arg()
return answer(limit > 0 and redis.call('ZRANGE', key('gate:') .. gate, 0, limit - 1) or {})
