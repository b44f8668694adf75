-- renew: gives a new store epoch to a store that came back older. Its workers believe that they hold jobs
-- which the store does not know, and the other way round. So the workers that the store knew are released,
-- and start over. Then every process declares its queues and types again. The script runs in steps. A worker
-- that registers after the first step knows the store as it is, and stays.
-- keys layout, sequence, worker:, workers
-- ARGV a random id, the new store epoch; what core decides for a job that is given back (apply.rs); when the
--      first step ran, in microseconds, or 0 for the first step; the cursor to go on from among workers, 0 to
--      begin
-- answers the cursor to go on from, or '' at the end
local store_epoch, release, began, cursor = arg(), cjson.decode(arg()), number_arg(), arg()
began = began > 0 and began or NOW

local page = redis.call('SSCAN', key('workers'), cursor, 'COUNT', WORKERS_PAGE)
local room = BATCH_MAX
for _, worker in ipairs(page[2]) do
  local since = tonumber(redis.call('HGET', key('worker:') .. worker, 'since')) or 0
  if since <= began and room > 0 then
    room = room - release_worker(worker, release, room)
  end
end
if room == 0 then
  return answer({cursor})
end
if page[1] ~= '0' then
  return answer({page[1]})
end

-- A job number is never assigned twice.
if tonumber(redis.call('GET', key('sequence')) or 0) < tonumber(ARGV[6]) then
  write('SET', key('sequence'), ARGV[6])
end
write('HSET', key('layout'), 'store_epoch', store_epoch)
change_catalogue()
return answer({''})
