-- retire: releases a worker that ended cleanly, and requeues the jobs that it still holds, a limited number
-- in one run.
-- keys held:, worker:
-- ARGV worker, what core decides for a job that is given back (apply.rs)
-- answers '1' if there are more jobs to requeue
local worker, release = arg(), cjson.decode(arg())
local row = redis.call('HMGET', key('worker:') .. worker, 'since', 'dead')
local given_back = row[1] and not row[2] and release_worker(worker, release, BATCH_MAX) or 0
write_all()
return answer(given_back > 0 and redis.call('SCARD', key('held:') .. worker) > 0 and '1' or '')
