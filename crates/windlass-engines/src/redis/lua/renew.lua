-- renew: makes a store another one that came back older than it was. Its workers believe to hold what it does not know of, and
-- the other way round: so they are let out, and start over. Everybody declares queues and types again.
-- ARGV a random mark, the new incarnation; what core decides for a job that is given back (land.rs)
local incarnation, release = arg(), cjson.decode(arg())
for _, worker in ipairs(redis.call('SMEMBERS', key('workers'))) do
  let_out(worker, release)
end

-- Numbers that were given to jobs are not given to others.
if tonumber(redis.call('GET', key('sequence')) or 0) < tonumber(ARGV[6]) then
  write('SET', key('sequence'), ARGV[6])
end
write('HSET', key('layout'), 'incarnation', incarnation)
change_catalogue()
return answer('')
