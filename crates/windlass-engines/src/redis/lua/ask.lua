-- ask: the answers of an earlier enqueue. If it has no receipt that is still good, leaves one without
-- answers, so that the request stores nothing when it arrives; one that is closed stays so for as long from now
-- on.
-- keys answers, receipts
-- ARGV request id, for how long a receipt is good
-- answers as enqueue does, or nothing if the request is closed
local request, oldest_good = arg(), NOW - number_arg()

local at = redis.call('ZSCORE', key('receipts'), request)
if at and tonumber(at) > oldest_good then
  -- Answers that are gone must not pass for a request that was closed.
  local answers = redis.call('HGET', key('answers'), request) or 'gone'
  if answers ~= '' then
    return answer(answers)
  end
end
write('HSET', key('answers'), request, '')
write('ZADD', key('receipts'), NOW_DIGITS, request)
return answer(false)
