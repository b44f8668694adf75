-- repeat_claim: returns the jobs that an earlier request with this token claimed for its worker, by pages of
-- what the worker holds. From now on the token claims nothing: the server may not have received the earlier
-- request yet.
-- keys held:, spent, worker:
-- ARGV claim token, worker, the cursor to go on from, 0 to begin; number of queues, then each as
--      parts/lanes.lua says
-- answers {'dead'} if the worker has no live row; else {'', jobs, next due, the cursor to go on from (0 at
--      the end)}: for each job its id, state, body and notes
local token, worker, cursor = arg(), arg(), arg()
local queues = queue_args()

local row = redis.call('HMGET', key('worker:') .. worker, 'since', 'dead', 'leaving')
if not row[1] or row[2] or row[3] then
  return answer({'dead'})
end

write('ZADD', key('spent'), 'NX', NOW_DIGITS, token)

local jobs = {}
local page = redis.call('SSCAN', key('held:') .. worker, cursor, 'COUNT', BATCH_MAX)
local held = page[2]
for i, text in ipairs(get_jobs(STATE, held)) do
  local job = text and string.sub(text, 40, 55) == token and decode(held[i], text)
  if job then
    for _, value in ipairs({job.id, text, get_job(BODY, job.id), all_notes(job)}) do
      jobs[#jobs + 1] = value
    end
  end
end

local open_types = {}
for _, queue in ipairs(queues) do
  for _, type in ipairs(queue.paused and {} or queue.types) do
    open_types[#open_types + 1] = type
  end
end
return answer({'', jobs, look_ahead(busy_lanes(open_types)), page[1]})
