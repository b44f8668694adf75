-- report: notes how far running jobs are, each only while its fence holds.
-- ARGV number of reports, for each: id, token, progress as JSON
-- answers for each '1', or '' if the claim is lost
local answers = {}
for i = 1, number_arg() do
  local id, token, progress = arg(), arg(), arg()
  local job = load(id)
  local holds = job and job.stage == 'r' and job.token == token
  if holds then
    set_note(job, 'progress', progress)
    save(job)
  end
  answers[i] = holds and '1' or ''
end
return answer(answers)
