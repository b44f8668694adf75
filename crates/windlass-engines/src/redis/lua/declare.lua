-- declare: writes queues and types, which the caller has checked against the catalogue of this version.
-- keys kinds, layout, queues, types
-- ARGV number of queues, then name and spec of each; number of types, then name, queue, days of retention,
--      whether results are kept (0 or 1) and spec of each
-- answers only the time, which comes with every answer
local queues, types, names = {}, {}, {}
for i = 1, number_arg() * 2 do
  queues[i] = arg()
end
for i = 1, number_arg() do
  types[i] = {name = arg(), queue = arg(), days = number_arg(), keeps_result = number_arg(), spec = arg()}
  names[i] = types[i].name
end

-- A type keeps its number for good: it identifies lanes and jobs.
local last_number = tonumber(redis.call('HGET', key('layout'), 'types')) or error('expected the number of types, got none')
local numbers = {}
for i, known_type in ipairs(get_many(key('types'), names)) do
  numbers[names[i]] = known_type and string.match(known_type, '^%d+') or nil
end

local function number_of(name)
  if not numbers[name] then
    last_number = last_number + 1
    numbers[name] = digits(last_number)
  end
  return numbers[name]
end

local specs, kinds_of_types = {}, {}
for _, of in ipairs(types) do
  local number = number_of(of.name)
  specs[#specs + 1] = of.name
  specs[#specs + 1] = number .. ' ' .. of.spec
  kinds_of_types[#kinds_of_types + 1] = number
  kinds_of_types[#kinds_of_types + 1] = digits(of.days) .. ' ' .. digits(of.keeps_result) .. ' ' .. of.queue
end

write('HSET', key('layout'), 'types', digits(last_number))
change_catalogue()
write_many('HSET', key('queues'), queues)
write_many('HSET', key('types'), specs)
write_many('HSET', key('kinds'), kinds_of_types)
return answer('')
