-- discard: deletes a dead letter.
-- keys dead:
-- ARGV id
-- answers 'done', 'unchanged' if the job is no dead letter, or '' if there is no such job
local job = load(arg())
if not job then
  return answer('')
end
if job.stage ~= 'd' then
  return answer('unchanged')
end
write('ZREM', key('dead:') .. digits(job.type), job.id)
free_key(job, 'e')
forget(job.id, job.flags)
return answer('done')
