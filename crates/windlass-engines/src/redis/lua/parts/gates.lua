-- gates: releases jobs behind gates.
-- keys gate:

-- Releases the oldest jobs behind a gate, at most `limit`, and returns how many.
local function release_jobs(gate, limit)
  local ids = limit > 0 and redis.call('ZRANGE', key('gate:') .. gate, 0, limit - 1) or {}
  for i, job in ipairs(load_all(ids)) do
    if job and job.stage == 'p' then
      leave_waiting(job)
      enter_waiting(job, gate_by_history(job))
    else
      leave_gate(gate, ids[i])
      bury_damaged(ids[i])
    end
  end
  return #ids
end

-- Releases jobs behind several gates, at most `limit` in all. Returns whether it reached a limit, so that
-- there may be more.
local function release_all_jobs(gates, limit)
  local room = limit
  for i = 1, math.min(#gates, GATES_MAX) do
    room = room - release_jobs(gates[i], room)
  end
  return room == 0 or #gates > GATES_MAX
end
