-- report: stores the progress of running jobs, each only while its fence holds.
-- keys those of its parts
-- ARGV number of reports, for each: id, token, progress as JSON
-- answers for each '1', or '' if the claim is lost
local ids, tokens, progress = {}, {}, {}
for i = 1, number_arg() do
  ids[i], tokens[i], progress[i] = arg(), arg(), arg()
end

local answers = {}
for i, job in ipairs(load_all(ids)) do
  local holds = job and job.stage == 'r' and job.token == tokens[i]
  if holds then
    set_note(job, 'progress', progress[i])
    save(job)
  end
  answers[i] = holds and '1' or ''
end
return answer(answers)
