-- retire: lets a worker out that ended cleanly; what it still holds is given back.
-- ARGV worker, what core decides for a job that is given back (land.rs)
local worker, release = arg(), cjson.decode(arg())
local row = key('worker:') .. worker
local known = redis.call('HMGET', row, 'since', 'dead')
if not known[1] or known[2] then
  return answer('')
end
for _, id in ipairs(redis.call('SMEMBERS', key('held:') .. worker)) do
  local job = load(id)
  if job and job.stage == 'r' and job.worker == worker then
    land(job, release, nil, nil)
  end
end
redis.call('UNLINK', row, key('held:') .. worker, key('stops:') .. worker)
redis.call('SREM', key('workers'), worker)
return answer('')
