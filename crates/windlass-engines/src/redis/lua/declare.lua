-- declare: writes queues and types, which the caller has checked against the catalogue of this version.
-- ARGV number of queues, then name and spec of each; number of types, then name, queue, days of retention, whether results
--      are kept (0 or 1) and spec of each
for _ = 1, number_arg() do
  redis.call('HSET', key('queues'), arg(), arg())
end

-- A type keeps its number for good: lanes and jobs are found by it.
local function number_of(name)
  local known = redis.call('HGET', key('types'), name)
  return known and string.match(known, '^%d+') or digits(redis.call('HINCRBY', key('layout'), 'types', 1))
end

for _ = 1, number_arg() do
  local name, queue, days, keeps_result, spec = arg(), arg(), arg(), arg(), arg()
  local number = number_of(name)
  redis.call('HSET', key('types'), name, number .. ' ' .. spec)
  redis.call('HSET', key('kinds'), number, days .. ' ' .. keeps_result .. ' ' .. queue)
end

change_catalogue()
return answer('')
