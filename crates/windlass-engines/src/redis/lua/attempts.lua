-- attempts: the attempts of one job that ended, and its state, which describes the last one.
-- keys attempts:
-- ARGV id
-- answers its state, its notes, and a line of JSON for each attempt; or nothing
local job = load(arg())
if not job then
  return answer(false)
end
return answer({encode(job), all_notes(job), redis.call('LRANGE', key('attempts:') .. job.id, 0, -1)})
