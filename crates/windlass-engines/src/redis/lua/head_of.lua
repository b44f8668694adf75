-- head_of: the job of a series that is out.
-- keys series
-- ARGV the gate of the series
-- answers its id, or ''
local id = redis.call('HGET', key('series'), arg())
local job = id and load(id)
return answer(job and (waits(job) or job.stage == 'r') and id or '')
