-- retry: starts a dead letter over, or makes a scheduled or parked job due at once.
-- keys those of its parts
-- ARGV id
-- answers 'retried', 'held' and the id of the job that holds its key, a stage that allows no retry, or '' for
--      no such job
local job = load(arg())
if not job then
  return answer({''})
end
if job.stage == 'd' then
  local name = note(job, 'key')
  local holder = name and key_holder(job.type, name)
  if holder and holder.id ~= job.id and verdict(holder, 'k') ~= 'i' then
    return answer({'held', holder.id})
  end
  job.due = NOW
  -- The job was started in time once; a person who starts it over does not want it to expire at once.
  drop_notes(job, 'expires')
  start_over(job)
  return answer({'retried'})
end
local is_scheduled = (job.stage == 'w' or job.stage == 'f') and job.due > NOW
if is_scheduled or job.stage == 'p' or job.stage == 'u' then
  -- A retry opens every gate except that of an ordering key, which keeps other jobs in order.
  local gate = gate_of(job)
  leave_waiting(job)
  job.due = NOW
  enter_waiting(job, gate == note(job, 'ordering_key') and gate or gate_by_history(job))
  return answer({'retried'})
end
return answer({job.stage})
