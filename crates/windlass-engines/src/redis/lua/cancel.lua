-- cancel: cancels a waiting job, or requests a running one to stop.
-- keys stops, stops:
-- ARGV id, why
-- answers 'cancelled', 'requested' and its token, the stage of a job that has ended, or '' if there is no
--      such job
local id, why = arg(), arg()
local job = load(id)
if not job then
  return answer({''})
end
if waits(job) then
  cancel_waiting(job, why)
  return answer({'cancelled'})
end
if job.stage ~= 'r' then
  return answer({job.stage})
end
-- The reason of the first request is kept.
if not note(job, 'cancel') then
  set_note(job, 'cancel', why)
  write('SADD', key('stops:') .. job.worker, id)
  save(job)
end
write('PUBLISH', key('stops'), id .. hex(job.token))
return answer({'requested', job.token})
