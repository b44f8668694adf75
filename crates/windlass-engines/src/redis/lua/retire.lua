-- retire: lets a worker out that ended cleanly; what it still holds is given back.
-- ARGV worker, what core decides for a job that is given back (land.rs)
local worker, release = arg(), cjson.decode(arg())
local known = redis.call('HMGET', key('worker:') .. worker, 'since', 'dead')
if known[1] and not known[2] then
  let_out(worker, release)
end
return answer('')
