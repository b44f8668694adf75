-- purge: cancels waiting jobs of some types.
-- keys parked:
-- ARGV the maximum number of jobs, why, number of types, types
-- answers how many jobs were cancelled, and '1' if there is more to do
local limit, why = number_arg(), arg()
local types = {}
for i = 1, number_arg() do
  types[i] = number_arg()
end

-- Jobs that wait, with or without a gate, at most `most`: tables of id, type and the set that lists the job.
local function waiting(most)
  local found = {}
  local function add(place, type)
    for _, id in ipairs(#found < most and redis.call('ZRANGE', place, 0, most - #found - 1) or {}) do
      found[#found + 1] = {id = id, type = type, place = place}
    end
  end
  for _, lane in ipairs(close_empty_lanes(types)) do
    add(lane.key, lane.type)
  end
  for _, type in ipairs(types) do
    add(key('parked:') .. digits(type), type)
  end
  return found
end

local cancelled = 0
for _, at in ipairs(waiting(limit)) do
  local job = load(at.id)
  if job and waits(job) then
    cancel_waiting(job, why)
    cancelled = cancelled + 1
  else
    remove_waiting(at.place, at.id, at.type)
  end
end
write_all()
return answer({digits(cancelled), #waiting(1) > 0 and '1' or ''})
