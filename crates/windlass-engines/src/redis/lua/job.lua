-- job: one job, wherever it is.
-- ARGV id
-- answers its state, body and notes, or nothing
local job = load(arg())
if not job then
  return answer(false)
end
return answer({encode(job), redis.call('HGET', BODY, job.id), all_notes(job)})
