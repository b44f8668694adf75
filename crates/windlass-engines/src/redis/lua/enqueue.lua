-- enqueue: stores new jobs, each by itself, and a receipt with their answers. A repeat is answered from the
-- receipt: with nothing if `ask` has closed the request.
-- keys answers, receipts
-- ARGV request id, for how long a receipt is good;
--      queues with a limit, and number of jobs, for each: all as in parts/putting.lua
-- answers one line for each job: n new, k kept, r replaced, v revived, each with the id, or x and the refusal; new jobs in
--         a row share a line, which ends with + and their number
local request, oldest_good = arg(), NOW - number_arg()

local receipt = redis.call('ZSCORE', key('receipts'), request)
if receipt and tonumber(receipt) > oldest_good then
  -- A receipt without answers closes the request; one whose answers are gone must not pass for that.
  return answer(redis.call('HGET', key('answers'), request) or 'gone')
end
if IS_OLDER then
  return {'older'}
end

read_limits()

-- Most batches are all new: their ids follow each other, and one line says it.
local answers, new_jobs = {}, 0

local function end_row()
  if new_jobs > 0 then
    answers[#answers + 1] = 'n' .. digits(last_number() - new_jobs + 1) .. '+' .. digits(new_jobs)
    new_jobs = 0
  end
end

for _ = 1, number_arg() do
  local line = put_next()
  if line then
    end_row()
    answers[#answers + 1] = line
  else
    new_jobs = new_jobs + 1
  end
end
end_row()

local lines = table.concat(answers, '\n')
write_put()
redis.call('HSET', key('answers'), request, lines)
redis.call('ZADD', key('receipts'), NOW, request)
return answer(lines)
