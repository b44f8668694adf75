-- waiting: the sets of waiting jobs, and the order of jobs in them.
--
-- Each type has lanes, one for each priority: sorted sets of ids by due time; ids have 14 digits, so that
-- jobs of one instant leave in the order in which they came. A job that is due when it is stored enters a
-- ready lane; a job that falls due later enters a scheduled one. Nothing is moved when it falls due, since a
-- claim reads both. The hash `lanes` says which lanes of a type may contain jobs, one letter each: a to k for
-- ready, A to K for scheduled, s for suspects.
-- keys trigger_jobs:, trigger_marks, trigger_watches, expiring, gate:, gates, group:, lanes, later, line,
--      lines:, parked:, ring, suspects:, types

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

-- Must run before anything is added to a lane: no script reads a lane that is not listed.
local function open_lane(type, lane)
  if not string.find(mask(type), lane, 1, true) then
    set_mask(type, mask(type) .. lane)
  end
end

local function close_lane(type, lane)
  set_mask(type, (string.gsub(mask(type), lane, '')))
end

-- The lane of a waiting job that no gate of a policy holds back.
local function lane_of(job)
  if job.stage == 'u' then
    return 's'
  end
  return job.stage == 'w' and ready_lane(job.priority) or scheduled_lane(job.priority)
end

local gates_listed = {}

-- Parks a job behind a gate. Gates that jobs wait behind are in the sorted set `gates`, all with one score,
-- so that they are listed by name. Gates of ordering keys are not in it, since no policy opens them; behind
-- them jobs are ordered by their numbers.
local function park(job, gate)
  job.stage = 'p'
  set_note(job, 'gate', gate)
  local is_line = gate == note(job, 'ordering_key')
  if not is_line and not gates_listed[gate] then
    write('ZADD', key('gates'), 0, gate)
    gates_listed[gate] = true
  end
  write('ZADD', key('gate:') .. gate, is_line and job.id or job.due, job.id)
  if is_line then
    write('ZADD', key('lines:') .. digits(job.type), digits(job.due), job.id)
  end
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

-- Lines of fairness keys. A job with a fairness key is in a lane like every other job, and also in the line
-- of its fairness key, a sorted set line:<type>:<priority>:<fairness key>. Where there are such lines, jobs
-- without a fairness key are in the line of the empty name. The sorted set ring:<type>:<priority> contains
-- the fairness keys whose line may have due jobs, all with one score, so that they follow each other by name;
-- later:<type>:<priority> contains the others, by when their first job falls due. All of it is hints: the
-- claim that finds a wrong entry removes it, and a job that is missing is claimed with the rest of its
-- priority. So a damaged key counts as empty, and its damage stops no script that has begun to write. Among
-- the letters of a type's lanes a digit (or a colon, for 10) says that a priority has lines.
local lines = {entering = {}, due = {}, later = {}, writes = {}}

-- The answer of a key of lines; nil if the key is damaged, and then it is deleted.
function lines.query(command, name, ...)
  local found = redis.pcall(command, name, ...)
  if type(found) ~= 'table' or not found.err then
    return found
  end
  lines.write('UNLINK', name)
end

-- Records a command that changes a key of lines, to run later.
function lines.write(...)
  lines.writes[#lines.writes + 1] = {...}
end

function lines.mark(priority)
  return string.char(48 + priority)
end

function lines.are_used(type, priority)
  return string.find(mask(type), lines.mark(priority), 1, true) ~= nil
end

function lines.key(what, type, priority)
  return key(what) .. ':' .. digits(type) .. ':' .. digits(priority)
end

function lines.line(type, priority, fairness_key)
  return lines.key('line', type, priority) .. ':' .. fairness_key
end

-- Records when the first job of a line falls due, if that is sooner than the stored time.
function lines.fall_due(type, priority, fairness_key, due)
  local name = lines.key('later', type, priority)
  lines.later[name] = lines.later[name] or {}
  local known_due = lines.later[name][fairness_key] or tonumber(lines.query('ZSCORE', name, fairness_key) or math.huge)
  if due < known_due then
    lines.write('ZADD', name, digits(due), fairness_key)
  end
  lines.later[name][fairness_key] = math.min(due, known_due)
end

function lines.enter(type, priority, fairness_key, id, due)
  open_lane(type, lines.mark(priority))
  local name, ring = lines.line(type, priority, fairness_key), lines.key('ring', type, priority)
  lines.entering[name] = lines.entering[name] or {}
  lines.entering[name][id] = digits(due)
  if due <= NOW then
    lines.due[ring] = lines.due[ring] or {}
    lines.due[ring][fairness_key] = '0'
  else
    lines.fall_due(type, priority, fairness_key, due)
  end
end

function lines.leave(type, priority, fairness_key, id)
  local name = lines.line(type, priority, fairness_key)
  if lines.entering[name] then
    lines.entering[name][id] = nil
  end
  lines.write('ZREM', name, id)
end

-- The fairness key of the line that contains a job in a lane; nil if no line contains it.
function lines.fairness_key_of(job)
  return job.stage ~= 'u' and (note(job, 'fairness_key') or (lines.are_used(job.type, job.priority) and '')) or nil
end

on_write(function()
  for _, command in ipairs(lines.writes) do
    redis.pcall(unpack(command))
  end
  for _, sets in ipairs({lines.entering, lines.due}) do
    for name, scores in pairs(sets) do
      local values = {}
      for member, score in pairs(scores) do
        values[#values + 1] = score
        values[#values + 1] = member
      end
      for first = 1, #values, ARGS_MAX do
        redis.pcall('ZADD', name, unpack(values, first, math.min(first + ARGS_MAX - 1, #values)))
      end
    end
  end
  lines.entering, lines.due, lines.writes = {}, {}, {}
end)

local function enter_lane(job, is_suspect)
  job.stage = is_suspect and 'u' or (job.due <= NOW and 'w' or 'f')
  local lane = lane_of(job)
  open_lane(job.type, lane)
  local name = lane_key(job.type, lane)
  entering[name] = entering[name] or {}
  entering[name][job.id] = digits(job.due)
  local fairness_key = lines.fairness_key_of(job)
  if fairness_key then
    lines.enter(job.type, job.priority, fairness_key, job.id, job.due)
  end
end

-- Expiry applies to the first start.
local function expiry(job)
  return job.attempts == 0 and tonumber(note(job, 'expires')) or nil
end

-- Completion triggers watch groups of jobs; core decides which jobs keep a group unfinished
-- (triggers/rules.rs). This part marks the triggers. The hash `trigger_watches` stores for each by its name
-- whether it waits for retries (0 or 1), what kind of group it watches (q, t or g), and which. The set
-- `trigger_marks` contains the triggers that some job kept waiting and keeps waiting no more. Whether there
-- are any triggers is in the layout, so that they cost nothing if there are none.
triggers.is_any, triggers.known = LAYOUT[5] == '1', {}

-- Whether a job that waits could run now.
function triggers.could_run(job)
  return job.due <= NOW and (job.stage ~= 'p' or note(job, 'gate') == (note(job, 'ordering_key') or false))
end

function triggers.watches()
  if not triggers.list then
    triggers.list, triggers.by_name = {}, {}
    local rows = redis.call('HGETALL', key('trigger_watches'))
    for i = 1, #rows, 2 do
      local waits_too, kind_of, of = string.match(rows[i + 1], '^(%d)(%a)(.*)$')
      if kind_of == 't' then
        of = string.match(redis.call('HGET', key('types'), of) or '', '^%d+')
      end
      local trigger = {name = rows[i], waits_too = waits_too == '1', kind = kind_of, of = of}
      triggers.list[#triggers.list + 1], triggers.by_name[trigger.name] = trigger, trigger
    end
  end
  return triggers.list
end

-- The completion trigger that enqueued the job with this key. The job does not belong to the group that the
-- trigger watches, whichever trigger watches that group.
function triggers.maker(own)
  local name = string.match(own or '', '^trigger/([^/]+)/')
  return name and triggers.watches() and triggers.by_name[name]
end

function triggers.watch_the_same(one, other)
  return one and other and one.kind == other.kind and one.of == other.of
end

-- Marks completion triggers that a job of this type kept waiting and keeps waiting no more: those that do not
-- wait for retries (`frees`), those that do (`frees_too`).
function triggers.mark(type, group, own, frees, frees_too)
  local what = digits(type) .. (frees and 'a' or '') .. (frees_too and 'b' or '')
  if not triggers.is_any or (triggers.known[what] and not group and not own) then
    return
  end
  local maker = triggers.maker(own)
  for _, trigger in ipairs(triggers.watches()) do
    local is_of = (trigger.kind == 'q' and kind(type).queue == trigger.of) or (trigger.kind == 't' and digits(type) == trigger.of)
      or (trigger.kind == 'g' and group == trigger.of)
    local is_free = (trigger.waits_too and frees_too) or (not trigger.waits_too and frees)
    if is_of and is_free and not triggers.watch_the_same(trigger, maker) then
      triggers.marked[trigger.name] = true
    end
  end
  triggers.known[what] = triggers.known[what] or not (group or own)
end

-- Records that a job ends: `held` says whether it ran or could have run.
function triggers.ended(job, held)
  local group = note(job, 'group')
  if group then
    write('ZREM', key('group:') .. group, job.id)
  end
  triggers.mark(job.type, group, note(job, 'key'), held, true)
end

-- Records that a job waits: stores from when it keeps the triggers of its group waiting, and marks those that
-- it kept waiting until now.
function triggers.waits(job, held)
  local group, own = note(job, 'group'), note(job, 'key')
  local could_run = triggers.could_run(job)
  if group then
    local is_parked = job.stage == 'p' and note(job, 'gate') ~= note(job, 'ordering_key')
    write('ZADD', key('group:') .. group, is_parked and '+inf' or digits(job.due), job.id)
  end
  if held and not could_run then
    triggers.mark(job.type, group, own, true, false)
  end
  -- An evaluation removes jobs that have ended from the set, and this job may have been a dead letter.
  local maker = string.match(own or '', '^trigger/([^/]+)/')
  if maker then
    write('SADD', key('trigger_jobs:') .. maker, job.id)
  end
end

on_write(function()
  local names = {}
  for name in pairs(triggers.marked) do
    names[#names + 1] = name
  end
  call_many('SADD', key('trigger_marks'), names)
end)

-- Lets a job wait, behind a gate or ('') behind none, and saves it.
local function enter_waiting(job, gate)
  local held = job.stage == 'r' or job.could_run
  job.could_run = nil
  job.token, job.worker, job.since, job.at = nil, nil, nil, nil
  if gate == '' or gate == SUSPECT then
    enter_lane(job, gate == SUSPECT)
  else
    park(job, gate)
  end
  triggers.waits(job, held)
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

-- Removes a job from behind a gate. If it was the last, the gate is removed from the list when the script
-- answers.
local function leave_gate(gate, id)
  write('ZREM', key('gate:') .. gate, id)
  gates_left[gate] = true
end

-- Removes a waiting job from the set that lists it. The caller saves or deletes the job.
local function leave_waiting(job)
  job.could_run = triggers.could_run(job)
  if job.stage == 'p' then
    leave_gate(gate_of(job), job.id)
    if gate_of(job) == note(job, 'ordering_key') then
      write('ZREM', key('lines:') .. digits(job.type), job.id)
    end
    write('ZREM', key('parked:') .. digits(job.type), job.id)
    drop_notes(job, 'gate')
  else
    local name = lane_key(job.type, lane_of(job))
    if entering[name] then
      entering[name][job.id] = nil
    end
    write('ZREM', name, job.id)
    local fairness_key = lines.fairness_key_of(job)
    if fairness_key then
      lines.leave(job.type, job.priority, fairness_key, job.id)
    end
  end
  if note(job, 'expires') then
    write('ZREM', key('expiring'), job.id)
  end
end

-- The gate that core gives to a job because of its crashes.
local function gate_by_history(job)
  return job.crashes > 0 and GATE_AFTER_CRASH or GATE_WITHOUT_CRASH
end
