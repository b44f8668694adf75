-- renew: makes a store another one that came back older than it was. Its workers believe to hold what it does not know of, and
-- the other way round: so those that it knew are let out, and start over. Then everybody declares queues and types again.
-- It goes in steps. Whoever comes after the first of them knows the store as it is, and stays.
-- keys layout, sequence, worker:, workers
-- ARGV a random mark, the new store_epoch; what core decides for a job that is given back (apply.rs); when the first step was,
--      in microseconds, or 0 for the first step; where to go on among workers, 0 to begin
-- answers where to go on, or '' if it is done
local store_epoch, release, began, cursor = arg(), cjson.decode(arg()), number_arg(), arg()
began = began > 0 and began or NOW

local page = redis.call('SSCAN', key('workers'), cursor, 'COUNT', WORKERS_PAGE)
local room = BATCH_MAX
for _, worker in ipairs(page[2]) do
  local since = tonumber(redis.call('HGET', key('worker:') .. worker, 'since')) or 0
  if since <= began and room > 0 then
    room = room - let_out(worker, release, room)
  end
end
if room == 0 then
  return answer({cursor})
end
if page[1] ~= '0' then
  return answer({page[1]})
end

-- Numbers that were given to jobs are not given to others.
if tonumber(redis.call('GET', key('sequence')) or 0) < tonumber(ARGV[6]) then
  write('SET', key('sequence'), ARGV[6])
end
write('HSET', key('layout'), 'store_epoch', store_epoch)
change_catalogue()
return answer({''})
