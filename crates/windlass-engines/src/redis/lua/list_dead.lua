-- list_dead: dead letters of some types, newest first. Each type has an index of its dead letters, so the
-- cost does not depend on the number of other jobs.
-- keys dead:
-- ARGV from this number downwards, the maximum number of jobs, number of types, types
-- answers the number from which to go on (0 if there are no more), and for each job its id, state, body and
--      notes
local from, limit = number_arg(), number_arg()

local ids = {}
for _ = 1, number_arg() do
  local lane = key('dead:') .. digits(number_arg())
  for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', lane, digits(from), '-inf', 'LIMIT', 0, limit)) do
    ids[#ids + 1] = id
  end
end
table.sort(ids, function(a, b)
  return a > b
end)

local jobs, next_number = {}, 0
for i = 1, math.min(#ids, limit) do
  local job = load(ids[i])
  if job and job.stage == 'd' then
    for _, value in ipairs({job.id, encode(job), get_job(BODY, job.id), all_notes(job)}) do
      jobs[#jobs + 1] = value
    end
  end
  next_number = i == limit and tonumber(ids[i]) - 1 or 0
end
return answer({digits(next_number), jobs})
