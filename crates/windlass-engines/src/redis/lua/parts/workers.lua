-- workers: functions that scripts about workers share.

-- The jobs among these that a worker runs and that were requested to stop: ids and tokens in turn.
local function fences_to_stop(worker, ids)
  local fences = {}
  table.sort(ids)
  for i, text in ipairs(get_jobs(STATE, ids)) do
    if text and string.sub(text, 1, 1) == 'r' and string.sub(text, 56, 71) == worker then
      fences[#fences + 1] = ids[i]
      fences[#fences + 1] = string.sub(text, 40, 55)
    end
  end
  return fences
end
