-- enqueue: stores new jobs, each by itself, and a receipt with their answers. The receipt answers a repeat:
-- with an empty answer if `ask` has closed the request.
-- keys answers, receipts
-- ARGV request id, for how long a receipt is valid; queues with a limit, and number of jobs, for each: all as
--      in parts/putting.lua
-- answers one line for each job: n new, k kept, r replaced, v revived, each with the id, or x and the
--      refusal; consecutive new jobs share a line, which ends with + and their number
local request, oldest_good = arg(), NOW - number_arg()

local receipt = redis.call('ZSCORE', key('receipts'), request)
if receipt and tonumber(receipt) > oldest_good then
  -- A receipt without answers closes the request. A receipt whose answers are lost must not look like a
  -- closed request.
  return answer(redis.call('HGET', key('answers'), request) or 'gone')
end
if IS_OLDER then
  return {'older'}
end

read_limits()

-- Most batches contain only new jobs: their ids are consecutive, and one line describes them.
local answers, new_jobs = {}, 0

local function end_row()
  if new_jobs > 0 then
    answers[#answers + 1] = 'n' .. digits(last_number() - new_jobs + 1) .. '+' .. digits(new_jobs)
    new_jobs = 0
  end
end

for _ = 1, number_arg() do
  local line = enqueue_next()
  if line then
    end_row()
    answers[#answers + 1] = line
  else
    new_jobs = new_jobs + 1
  end
end
end_row()

local lines = table.concat(answers, '\n')
write_enqueued()
redis.call('HSET', key('answers'), request, lines)
redis.call('ZADD', key('receipts'), NOW, request)
return answer(lines)
