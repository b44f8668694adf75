-- resume: ends the pause of a queue.
-- keys pauses, queues
-- ARGV queue
-- answers 'done', 'unchanged' if the queue was not paused, or '' if there is no such queue
local queue = arg()
if redis.call('HEXISTS', key('queues'), queue) == 0 then
  return answer('')
end
local pause = redis.call('HGET', key('pauses'), queue)
if not pause then
  return answer('unchanged')
end
write('HDEL', key('pauses'), queue)
change_catalogue()
local ends = string.match(pause, '^%d+\n(%d*)')
if ends ~= '' and tonumber(ends) <= NOW then
  return answer('unchanged')
end
hinted[queue] = true
return answer('done')
