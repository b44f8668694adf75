-- behind: the oldest jobs behind a gate.
-- keys gate:
-- ARGV gate, at most so many
-- answers ids
local gate, limit = arg(), number_arg()
return answer(limit > 0 and redis.call('ZRANGE', key('gate:') .. gate, 0, limit - 1) or {})
