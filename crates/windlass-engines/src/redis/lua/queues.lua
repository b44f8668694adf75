-- queues: how many jobs of each type are in each state. No count reads the jobs one by one.
-- keys counts, dead:, parked:
-- ARGV among how many jobs of a priority to look for the one that has waited longest, and how many jobs to
--      read in all behind the first ones; number of types, types
-- answers for each type: enqueued, succeeded, retried, dead, cancelled, started over; ready, scheduled,
--      suspects, parked, dead letters; and since when its longest-waiting ready job has waited
local looked_at, left, rows = number_arg(), number_arg(), {}
local TOTALS_SHOWN = {'enqueued', 'succeeded', 'retried', 'dead', 'cancelled', 'started_over'}

local function totals(type)
  local fields = {}
  for i, what in ipairs(TOTALS_SHOWN) do
    fields[i] = digits(type) .. ':' .. what
  end
  local counts = redis.call('HMGET', key('counts'), unpack(fields))
  for i = 1, #fields do
    counts[i] = digits(tonumber(counts[i]) or 0)
  end
  return counts
end

-- Since when the longest-waiting ready job of a lane has waited; `so_far` if a job of another lane has waited
-- longer. The rule is core's (`waits_longest`): nearly always it is the first job. The others are read at
-- once, and only those that fell due before `so_far`.
local function waits_longest(lane, so_far)
  local from, count = 0, 1
  while count > 0 do
    local till = so_far and so_far <= NOW and '(' .. digits(so_far) or NOW_DIGITS
    local ready = redis.call('ZRANGEBYSCORE', lane.key, '-inf', till, 'WITHSCORES', 'LIMIT', from, count)
    local ids = {}
    for i = 1, #ready, 2 do
      ids[#ids + 1] = ready[i]
    end
    for i, job in ipairs(load_all(ids)) do
      local due = tonumber(ready[2 * i])
      if so_far and due >= so_far then
        return so_far
      end
      local since = job and math.max(due, job.enqueued) or due
      so_far = math.min(so_far or since, since)
    end
    if from > 0 then
      left = left - #ids
      break
    end
    from, count = #ids, #ids > 0 and math.min(looked_at - 1, left) or 0
  end
  return so_far
end

for i = 1, number_arg() do
  local type = number_arg()
  local row = totals(type)
  local ready, scheduled, suspects, oldest = 0, 0, 0, nil
  for _, lane in ipairs(busy_lanes({type})) do
    local all = redis.call('ZCARD', lane.key)
    if lane.letter == 's' then
      suspects = all
    else
      local due = redis.call('ZCOUNT', lane.key, '-inf', NOW_DIGITS)
      ready, scheduled = ready + due, scheduled + all - due
      oldest = waits_longest(lane, oldest)
    end
  end
  local parked = redis.call('ZCARD', key('parked:') .. digits(type))
  local dead_letters = redis.call('ZCARD', key('dead:') .. digits(type))
  for _, number in ipairs({ready, scheduled, suspects, parked, dead_letters}) do
    row[#row + 1] = digits(number)
  end
  row[#row + 1] = oldest and digits(oldest) or ''
  rows[i] = row
end
return answer(rows)
