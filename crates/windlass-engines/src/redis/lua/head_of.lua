-- head_of: the head of an ordering key: the one job of it that may run.
-- keys ordering_key
-- ARGV the gate of the ordering key
-- answers its id, or ''
local id = redis.call('HGET', key('ordering_key'), arg())
local job = id and load(id)
return answer(job and (waits(job) or job.stage == 'r') and id or '')
