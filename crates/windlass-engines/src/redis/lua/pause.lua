-- pause: stops claims from a queue.
-- keys pauses, queues
-- ARGV queue, for how long in microseconds or '', reason with an r before it or ''
-- answers 'done', 'unchanged' if the same pause holds already, or '' if there is no such queue
local queue, lasting, reason = arg(), arg(), arg()
if redis.call('HEXISTS', key('queues'), queue) == 0 then
  return answer('')
end
local ends = lasting == '' and '' or digits(NOW + tonumber(lasting))
local since, known_ends, known_reason =
  string.match(redis.call('HGET', key('pauses'), queue) or '', '^(%d+)\n(%d*)\n(.*)$')
local holds = since and (known_ends == '' or tonumber(known_ends) > NOW)
if holds and known_ends == ends and known_reason == reason then
  return answer('unchanged')
end
write('HSET', key('pauses'), queue, NOW_DIGITS .. '\n' .. ends .. '\n' .. reason)
change_catalogue()
return answer('done')
