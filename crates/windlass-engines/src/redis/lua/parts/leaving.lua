-- leaving: how a worker goes.

-- Lets a worker out. What it holds is given back as core decides (land.rs).
local function let_out(worker, release)
  local ids = redis.call('SMEMBERS', key('held:') .. worker)
  for i, job in ipairs(load_all(ids)) do
    if job and job.stage == 'r' and job.worker == worker then
      land(job, release, nil, nil)
    else
      give_up(ids[i])
    end
  end
  write('UNLINK', key('worker:') .. worker, key('held:') .. worker, key('stops:') .. worker)
  write('SREM', key('workers'), worker)
end
