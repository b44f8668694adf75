-- job: one job, in any state.
-- keys those of its parts
-- ARGV id
-- answers its state, body and notes, or nothing
local id = arg()
local text = get_job(STATE, id)
if not text then
  return answer(false)
end
local job = decode(id, text)
return answer({text, get_job(BODY, id), job and all_notes(job) or {}})
