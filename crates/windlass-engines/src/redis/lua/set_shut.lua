-- set_shut: shuts a queue, so that it refuses new jobs, or opens it again.
-- keys queues, shut
-- ARGV queue, '1' to shut it or '' to open it
-- answers 'done', 'unchanged' if the queue is in this state already, or '' if there is no such queue
local queue, shut = arg(), arg()
if redis.call('HEXISTS', key('queues'), queue) == 0 then
  return answer('')
end
if redis.call('SISMEMBER', key('shut'), queue) == (shut == '1' and 1 or 0) then
  return answer('unchanged')
end
write(shut == '1' and 'SADD' or 'SREM', key('shut'), queue)
change_catalogue()
return answer('done')
