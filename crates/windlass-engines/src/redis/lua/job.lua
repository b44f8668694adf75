-- job: one job, wherever it is.
-- ARGV id
-- answers its state, body and notes, or nothing
local id = arg()
local text = redis.call('HGET', STATE, id)
if not text then
  return answer(false)
end
local job = decode(id, text)
return answer({text, redis.call('HGET', BODY, id), job and all_notes(job) or {}})
