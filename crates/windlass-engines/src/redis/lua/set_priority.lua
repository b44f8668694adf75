-- set_priority: changes the priority of a waiting job.
-- keys those of its parts
-- ARGV id, priority
-- answers 'done', 'unchanged' if the job has this priority already or does not wait, or '' if there is no
--      such job
local job, priority = load(arg()), number_arg()
if not job then
  return answer('')
end
if job.priority == priority or not waits(job) then
  return answer('unchanged')
end
local gate = gate_of(job)
leave_waiting(job)
job.priority = priority
enter_waiting(job, gate)
return answer('done')
