-- list: reads a range of job numbers, newest first, and returns the jobs in certain stages and of certain
-- types.
-- keys sequence
-- ARGV from this number downwards, how many numbers to read, the maximum number of jobs; stages as letters;
--      '' for all types, or types with a comma before and behind each
-- answers the number from which to go on, and for each job its id, state, body and notes
local from, stretch, limit, stages, types = number_arg(), number_arg(), number_arg(), arg(), arg()
from = math.min(from, tonumber(redis.call('GET', key('sequence')) or 0))
local last = math.max(from - stretch + 1, 1)

local ids = {}
for number = from, last, -1 do
  ids[#ids + 1] = string.format('%014d', number)
end

local jobs, found, next_number = {}, 0, last - 1
for i, text in ipairs(get_jobs(STATE, ids)) do
  local wanted = text and is_sound(text) and string.find(stages, string.sub(text, 1, 1), 1, true)
  if wanted and types ~= '' then
    wanted = string.find(types, ',' .. struct.unpack('>I4', text, 3) .. ',', 1, true)
  end
  if wanted then
    local job = decode(ids[i], text)
    for _, value in ipairs({job.id, text, get_job(BODY, job.id), all_notes(job)}) do
      jobs[#jobs + 1] = value
    end
    found = found + 1
    if found == limit then
      next_number = from - i
      break
    end
  end
end
return answer({digits(next_number), jobs})
