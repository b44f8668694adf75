-- leaving: how a worker goes.

-- Lets a worker out. What it holds is given back as core decides (land.rs).
local function let_out(worker, release)
  for _, id in ipairs(redis.call('SMEMBERS', key('held:') .. worker)) do
    local job = load(id)
    if job and job.stage == 'r' and job.worker == worker then
      land(job, release, nil, nil)
    else
      give_up(id)
    end
  end
  redis.call('UNLINK', key('worker:') .. worker, key('held:') .. worker, key('stops:') .. worker)
  redis.call('SREM', key('workers'), worker)
end
