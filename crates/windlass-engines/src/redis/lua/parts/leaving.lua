-- leaving: how a worker leaves.
-- keys held:, stops:, waiters:, worker:, workers

-- Releases a worker. The jobs that it holds are requeued as core decides (apply.rs), at most `most` in one
-- run. While there are more, the worker is `leaving`, and claims nothing from then on. It is not woken any
-- more. Returns how many jobs were requeued.
local function release_worker(worker, release, most)
  local row, held = key('worker:') .. worker, key('held:') .. worker
  local ids = redis.call('SRANDMEMBER', held, most)
  for i, job in ipairs(load_all(ids)) do
    if job and job.stage == 'r' and job.worker == worker then
      apply(job, release, nil, nil)
    else
      write('SREM', held, ids[i])
      bury_damaged(ids[i])
    end
  end
  if redis.call('SCARD', held) > #ids then
    write('HSET', row, 'leaving', '1')
  else
    for queue in string.gmatch(redis.call('HGET', row, 'queues') or '', '[^\n]+') do
      -- It may have been the only worker that knew when the next job falls due.
      WAKE.left[queue] = true
      write('ZREM', key('waiters:') .. queue, ENGINE .. ':' .. worker)
    end
    write('UNLINK', row, held, key('stops:') .. worker)
    write('SREM', key('workers'), worker)
    forget_member(worker, redis.call('HGET', row, 'duties'))
  end
  return #ids
end
