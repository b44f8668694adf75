-- queues: how many jobs of each type are where. Nothing is counted one by one.
-- keys counts, dead:, parked:
-- ARGV number of types, types
-- answers for each: enqueued, succeeded, retried, dead, cancelled; ready, scheduled, suspects, parked, dead letters; and
--         when the oldest of its jobs falls due
local rows = {}
local TOTALS_SHOWN = {'enqueued', 'succeeded', 'retried', 'dead', 'cancelled'}

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
      oldest = math.min(oldest or lane.head, lane.head)
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
