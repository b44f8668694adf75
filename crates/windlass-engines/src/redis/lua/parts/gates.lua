-- gates: who is let through.

-- Lets the oldest jobs through a gate, at most `limit`, and tells how many.
local function let_through(gate, limit)
  local ids = limit > 0 and redis.call('ZRANGE', key('gate:') .. gate, 0, limit - 1) or {}
  for i, text in ipairs(get_jobs(STATE, ids)) do
    local id = ids[i]
    local job = text and decode(id, text)
    if job and job.stage == 'p' then
      leave_waiting(job)
      enter_waiting(job, gate_by_history(job))
    else
      leave_gate(gate, id)
      give_up(id)
    end
  end
  return #ids
end
