-- receipt: the answers of an earlier enqueue, if its receipt is still valid.
-- keys answers, receipts
-- ARGV request id, for how long a receipt is valid
-- answers as enqueue does, or nothing
local request, oldest_good = arg(), NOW - number_arg()
local at = redis.call('ZSCORE', key('receipts'), request)
if at and tonumber(at) > oldest_good then
  return answer(redis.call('HGET', key('answers'), request))
end
return answer(false)
