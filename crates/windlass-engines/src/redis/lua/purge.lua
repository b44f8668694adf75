-- purge: cancels waiting jobs of some types, at most so many.
-- ARGV at most so many, why, number of types, types
-- answers how many were cancelled, and '1' if there is more to do
local limit, why = number_arg(), arg()
local types = {}
for i = 1, number_arg() do
  types[i] = number_arg()
end

-- Jobs that wait, with or without a gate, at most so many.
local function waiting(most)
  local ids = {}
  local function add(name)
    for _, id in ipairs(#ids < most and redis.call('ZRANGE', name, 0, most - #ids - 1) or {}) do
      ids[#ids + 1] = id
    end
  end
  for _, lane in ipairs(busy_lanes(types)) do
    add(lane.key)
  end
  for _, type in ipairs(types) do
    add(key('parked:') .. digits(type))
  end
  return ids
end

local ids = waiting(limit)
for _, id in ipairs(ids) do
  cancel_waiting(load(id), why)
end
return answer({digits(#ids), #waiting(1) > 0 and '1' or ''})
