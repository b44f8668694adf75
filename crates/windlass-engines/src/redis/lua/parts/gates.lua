-- gates: who is let through.

-- Lets the oldest jobs through a gate, at most `limit`, and tells how many.
local function let_through(gate, limit)
  local ids = limit > 0 and redis.call('ZRANGE', key('gate:') .. gate, 0, limit - 1) or {}
  for i, job in ipairs(load_all(ids)) do
    if job and job.stage == 'p' then
      leave_waiting(job)
      enter_waiting(job, gate_by_history(job))
    else
      leave_gate(gate, ids[i])
      give_up(ids[i])
    end
  end
  return #ids
end
