-- open_gate: releases the oldest jobs behind a gate.
-- keys gate:
-- ARGV gate, the maximum number of jobs
-- answers how many jobs were released, and '1' if there are more behind the gate
local gate, limit = arg(), number_arg()
local through = release_jobs(gate, limit)
write_all()
return answer({digits(through), redis.call('ZCARD', key('gate:') .. gate) > 0 and '1' or ''})
