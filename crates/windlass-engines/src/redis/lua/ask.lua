-- ask: the answers of an earlier enqueue. If the request has no valid receipt, the script leaves one without
-- answers, so that the request stores nothing when it arrives. A closed request stays closed for as long from
-- now on.
-- keys answers, receipts
-- ARGV request id, for how long a receipt is valid
-- answers as enqueue does, or nothing if the request is closed
local request, oldest_good = arg(), NOW - number_arg()

local at = redis.call('ZSCORE', key('receipts'), request)
if at and tonumber(at) > oldest_good then
  -- A receipt whose answers are lost must not look like a closed request.
  local answers = redis.call('HGET', key('answers'), request) or 'gone'
  if answers ~= '' then
    return answer(answers)
  end
end
write('HSET', key('answers'), request, '')
write('ZADD', key('receipts'), NOW_DIGITS, request)
return answer(false)
