-- head_of: the job of an ordering key that is out.
-- keys ordering_key
-- ARGV the gate of the ordering key
-- answers its id, or ''
local id = redis.call('HGET', key('ordering_key'), arg())
local job = id and load(id)
return answer(job and (waits(job) or job.stage == 'r') and id or '')
