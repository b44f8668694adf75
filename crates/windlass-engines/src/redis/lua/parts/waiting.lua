-- waiting: where waiting jobs stand, and in which order.
--
-- Each type has lanes, one for each priority: sorted sets of ids by due time; ids have 14 digits, so that jobs of one
-- instant leave in the order in which they came. What is due when it enters stands in a ready lane, what falls due later
-- in a scheduled one; nothing is moved when it falls due, a claim looks at both. The hash `lanes` says which lanes of a
-- type may hold anything, one letter each: a to k for ready, A to K for scheduled, s for suspects.
-- keys expiring, gate:, gates, lanes, parked:, suspects:

local SUSPECT = GATE_AFTER_CRASH

local function ready_lane(priority)
  return string.char(97 + priority)
end

local function scheduled_lane(priority)
  return string.char(65 + priority)
end

local function lane_key(type, lane)
  local code = string.byte(lane)
  if lane == 's' then
    return key('suspects:') .. digits(type)
  elseif code >= 97 then
    return KEYS[2] .. digits(type) .. ':' .. (code - 97)
  end
  return KEYS[3] .. digits(type) .. ':' .. (code - 65)
end

local masks = {}
local function mask(type)
  masks[type] = masks[type] or redis.call('HGET', key('lanes'), digits(type)) or ''
  return masks[type]
end

local function set_mask(type, letters)
  masks[type] = letters
  write('HSET', key('lanes'), digits(type), letters)
end

-- Must come before anything is added to a lane: one that is not listed is not looked at.
local function open_lane(type, lane)
  if not string.find(mask(type), lane, 1, true) then
    set_mask(type, mask(type) .. lane)
  end
end

local function close_lane(type, lane)
  set_mask(type, (string.gsub(mask(type), lane, '')))
end

-- Where a job waits that no gate of a policy holds back.
local function lane_of(job)
  if job.stage == 'u' then
    return 's'
  end
  return job.stage == 'w' and ready_lane(job.priority) or scheduled_lane(job.priority)
end

local gates_listed = {}

-- Gates that somebody waits behind are in the sorted set `gates`, all with one score, so that they are listed by name. Not so
-- those of series, which no policy opens; behind them jobs stand in the order of their numbers.
local function park(job, gate)
  job.stage = 'p'
  set_note(job, 'gate', gate)
  local is_line = gate == note(job, 'series')
  if not is_line and not gates_listed[gate] then
    write('ZADD', key('gates'), 0, gate)
    gates_listed[gate] = true
  end
  write('ZADD', key('gate:') .. gate, is_line and job.id or job.due, job.id)
  write('ZADD', key('parked:') .. digits(job.type), job.due, job.id)
end

-- Jobs that enter lanes: due times by id, by the key of the lane.
local entering = {}

on_write(function()
  for name, of_lane in pairs(entering) do
    local values = {}
    for id, due in pairs(of_lane) do
      values[#values + 1] = due
      values[#values + 1] = id
    end
    call_many('ZADD', name, values)
  end
  entering = {}
end)

local function stand_in_lane(job, is_suspect)
  job.stage = is_suspect and 'u' or (job.due <= NOW and 'w' or 'f')
  local lane = lane_of(job)
  open_lane(job.type, lane)
  local name = lane_key(job.type, lane)
  entering[name] = entering[name] or {}
  entering[name][job.id] = digits(job.due)
end

-- Expiry is about the first start.
local function expiry(job)
  return job.attempts == 0 and tonumber(note(job, 'expires')) or nil
end

-- Lets a job wait, behind a gate or ('') behind none, and saves it.
local function enter_waiting(job, gate)
  job.token, job.worker, job.since, job.at = nil, nil, nil, nil
  if gate == '' or gate == SUSPECT then
    stand_in_lane(job, gate == SUSPECT)
  else
    park(job, gate)
  end
  local expires = expiry(job)
  if expires then
    write('ZADD', key('expiring'), expires, job.id)
  end
  hint(job.type)
  save(job)
end

-- The gate that holds a waiting job back, or ''.
local function gate_of(job)
  if job.stage == 'p' then
    return note(job, 'gate') or ''
  end
  return job.stage == 'u' and SUSPECT or ''
end

-- Takes a job away from behind a gate. If it was the last, the gate goes off the list with the answer.
local function leave_gate(gate, id)
  write('ZREM', key('gate:') .. gate, id)
  gates_left[gate] = true
end

-- Takes a waiting job away from where it stands. Whoever calls saves or deletes it.
local function leave_waiting(job)
  if job.stage == 'p' then
    leave_gate(gate_of(job), job.id)
    write('ZREM', key('parked:') .. digits(job.type), job.id)
    drop_notes(job, 'gate')
  else
    local name = lane_key(job.type, lane_of(job))
    if entering[name] then
      entering[name][job.id] = nil
    end
    write('ZREM', name, job.id)
  end
  if note(job, 'expires') then
    write('ZREM', key('expiring'), job.id)
  end
end

-- The gate that core gives to a job because of what happened to it.
local function gate_by_history(job)
  return job.crashes > 0 and GATE_AFTER_CRASH or GATE_WITHOUT_CRASH
end
