-- ending: how jobs end, what is kept of them, and which job holds which key.
--
-- Keys are in the hash keys:<type>, each with the job that holds it (14 digits), its scope (l while live, d
-- while live or dead, p for a period) and, for a period, until when. Core's rule on them is in VERDICTS,
-- words of conflict (k keep, r replace, v revive), stage of the holder (w waits, r runs, d dead, e ended),
-- scope, whether its period is over (1) or not (0), and the decision on a new job: i insert, k keep, r
-- replace or v revive.
-- keys attempts:, dead:, ended, expiring, gate:, held:, keys:, kinds, lapsing, layout, notes:, parked:,
--      ordering_key, stops:, traces

local DAY = 24 * 60 * 60 * 1000000

local set_holder, key_holder, verdict, hold_key, free_key
-- In a block of its own: a function may have 200 local names at a time.
do
  local function keys_of(type)
    return key('keys:') .. digits(type)
  end

  -- The stored text of keys, by type and name, with the changes of this script; false for a key without a
  -- holder.
  local holders = {}

  local function holder_text(type, name)
    holders[type] = holders[type] or {}
    if holders[type][name] == nil then
      holders[type][name] = redis.call('HGET', keys_of(type), name)
    end
    return holders[type][name]
  end

  -- Keys whose holder changes: names by type.
  local changing = {}

  -- Records the holder of a key; false for none.
  function set_holder(type, name, text)
    holders[type] = holders[type] or {}
    holders[type][name] = text
    changing[type] = changing[type] or {}
    changing[type][name] = true
  end

  on_write(function()
    for type, names in pairs(changing) do
      local held, freed = {}, {}
      for name in pairs(names) do
        local text = holders[type][name]
        if text then
          held[#held + 1] = name
          held[#held + 1] = text
        else
          freed[#freed + 1] = name
        end
      end
      call_many('HSET', keys_of(type), held)
      call_many('HDEL', keys_of(type), freed)
    end
    changing = {}
  end)

  -- The job that holds a key: a table of id, scope and end of its period; nil if no job holds it.
  local function holder_of(type, name)
    local text = holder_text(type, name)
    if not text then
      return nil
    end
    local holder = {id = string.sub(text, 1, 14), scope = string.sub(text, 15, 15)}
    holder['until'] = tonumber(string.sub(text, 16))
    return holder
  end

  -- The job that holds a key, with the stage of that job.
  function key_holder(type, name)
    local holder = holder_of(type, name)
    if not holder then
      return nil
    end
    local job = load(holder.id)
    if job and waits(job) then
      holder.stage = 'w'
    else
      holder.stage = job and (job.stage == 'r' or job.stage == 'd') and job.stage or 'e'
    end
    return holder
  end

  function verdict(holder, on_conflict)
    local lasts = holder['until'] and holder['until'] > NOW
    return string.match(VERDICTS, on_conflict .. holder.stage .. holder.scope .. (lasts and '0' or '1') .. '(%a)')
  end

  -- Gives a job its key, if it has one. The caller has made sure that no other job holds it.
  function hold_key(job)
    local name, scope = note(job, 'key'), note(job, 'scope') or 'l'
    if not name then
      return
    end
    local period = tonumber(string.sub(scope, 2))
    local lasts = period and digits(job.enqueued + period) or ''
    set_holder(job.type, name, job.id .. string.sub(scope, 1, 1) .. lasts)
  end

  -- Frees the key of a job that ended in this way (d or e), unless the key is to be held longer. The key may
  -- have passed to another job while this one was dead.
  function free_key(job, stage)
    local name = note(job, 'key')
    local holder = name and holder_of(job.type, name)
    if not holder or holder.id ~= job.id then
      return
    end
    holder.stage = stage
    if verdict(holder, 'k') == 'i' then
      set_holder(job.type, name, false)
    elseif holder['until'] then
      write('ZADD', key('lapsing'), holder['until'], digits(job.type) .. ':' .. name)
    end
  end
end

-- Ordering keys: jobs with the same note `ordering_key`, the gate of their ordering key, run one at a time.
-- The hash `ordering_key` stores the head of each ordering key by its gate; the other jobs wait behind the
-- gate. All of it is in one table, since a script has few local names left.
local ordering_key = {out = {}, left = {}}

-- The job that is stored as head, with the changes of this script; false if there is none.
function ordering_key.noted(gate)
  if ordering_key.out[gate] == nil then
    ordering_key.out[gate] = redis.call('HGET', key('ordering_key'), gate)
  end
  return ordering_key.out[gate]
end

-- The head of an ordering key; false if there is none. The stored head alone is not reliable: a process of a
-- version that does not know ordering keys may have ended that job, or its state was lost. Such a head would
-- block its ordering key for ever.
function ordering_key.head(gate)
  local id = ordering_key.noted(gate)
  local job = id and load(id)
  return job and (job.stage == 'r' or (waits(job) and gate_of(job) ~= gate)) and id or false
end

function ordering_key.set_head(gate, id)
  ordering_key.out[gate] = id
  if id then
    write('HSET', key('ordering_key'), gate, id)
  else
    write('HDEL', key('ordering_key'), gate)
  end
end

-- Makes the oldest waiting job the head, if there is no head.
function ordering_key.go_on(gate)
  local job = not ordering_key.head(gate) and ordering_key.oldest(gate)
  if job then
    leave_waiting(job)
    enter_waiting(job, gate_by_history(job))
    ordering_key.set_head(gate, job.id)
  end
end

-- Lets a job wait that is new or was started over: behind no gate, or behind the gate of its ordering key if
-- that has a head.
function ordering_key.enter(job)
  local gate = note(job, 'ordering_key')
  if not gate then
    return enter_waiting(job, '')
  end
  ordering_key.go_on(gate)
  if ordering_key.head(gate) then
    return enter_waiting(job, gate)
  end
  ordering_key.set_head(gate, job.id)
  enter_waiting(job, '')
end

-- Records that a job has ended. The next head is chosen once all jobs that this script ends are known.
function ordering_key.leave(job)
  local gate = note(job, 'ordering_key')
  if gate and (ordering_key.noted(gate) == job.id or not (ordering_key.left[gate] or ordering_key.head(gate))) then
    ordering_key.set_head(gate, false)
    ordering_key.left[gate] = true
  end
end

-- As many traces as the memory engine keeps: more would outgrow the jobs themselves.
ordering_key.traces_max = 100000

-- Traces, which say by which claim deleted jobs ended: pairs of now, and job and token. And ids of jobs to
-- delete.
local traces, gone = {}, {}

local function add_trace(id, token)
  traces[#traces + 1] = NOW_DIGITS
  traces[#traces + 1] = id .. token
end

local function forget(id, flags)
  unsave(id)
  gone[#gone + 1] = id
  if flags % 2 == 1 then
    write('UNLINK', key('notes:') .. id, key('attempts:') .. id)
  end
end

on_write(function()
  delete_jobs(gone)
  if #traces > 0 then
    call_many('ZADD', key('traces'), traces)
    redis.call('ZREMRANGEBYRANK', key('traces'), 0, - ordering_key.traces_max - 1)
  end
  traces, gone = {}, {}
end)

local TOTALS = {s = 'succeeded', d = 'dead', c = 'cancelled'}

-- Stores the end (s, d or c) of a job that no longer waits or runs. `token` settled it, if any did; `ended`
-- is when its last attempt ended, if that was not now.
local function finish(job, stage, token, ended)
  triggers.ended(job, job.stage == nil or job.stage == 'r' or job.could_run)
  job.stage, job.at = stage, ended or NOW
  job.token, job.worker, job.since = token or NO_TOKEN, job.worker or NO_TOKEN, job.since or 0
  count(job.type, TOTALS[stage])
  free_key(job, stage == 'd' and 'd' or 'e')
  ordering_key.leave(job)
  local days = kind(job.type).days
  if stage == 'd' then
    write('ZADD', key('dead:') .. digits(job.type), job.id, job.id)
  elseif days > 0 then
    write('ZADD', key('ended'), digits(NOW + days * DAY), job.id)
  else
    -- A job that waits may have been settled before: a repeat of that settlement gets the same answer.
    local settled_by = token or note(job, 'settled')
    forget(job.id, job.flags)
    if settled_by then
      add_trace(job.id, settled_by)
    end
    return
  end
  save(job)
end

-- The type that a damaged state names, if there is such a type, else 0.
local function damaged_type(text)
  local type = #text >= 6 and struct.unpack('>I4', text, 3) or 0
  return redis.call('HEXISTS', key('kinds'), digits(type)) == 1 and type or 0
end

-- Makes a job whose state is damaged a dead letter with an error that says so. The gate it waited for and the
-- number of its attempts are lost with its state. The caller passes `type` if it knows the type from
-- elsewhere.
local function bury_damaged(id, type)
  local text = not known[id] and get_job(STATE, id)
  if not text or is_sound(text) then
    return
  end
  local job = {id = id, flags = 1, type = type or damaged_type(text), priority = PRIORITY_LAST, enqueued = NOW, due = NOW,
    attempts = 0, failures = 0, crashes = 0, holds = 0}
  write('ZREM', key('parked:') .. digits(job.type), id)
  write('ZREM', key('expiring'), id)
  set_note(job, 'error', DAMAGED)
  set_note(job, 'death', DAMAGED)
  finish(job, 'd')
end

-- Cancels a job that waits.
local function cancel_waiting(job, why)
  leave_waiting(job)
  set_note(job, 'why', why)
  finish(job, 'c')
end

-- The oldest job behind the gate of an ordering key, if there is one: nearly always the first of the set.
-- Jobs that do not belong there are removed.
function ordering_key.oldest(gate)
  local from, page = 0, 1
  while true do
    local ids = redis.call('ZRANGE', key('gate:') .. gate, from, from + page - 1)
    for i, job in ipairs(load_all(ids)) do
      if job and job.stage == 'p' and gate_of(job) == gate then
        return job
      end
      leave_gate(gate, ids[i])
      bury_damaged(ids[i])
    end
    if #ids < page then
      return nil
    end
    from, page = from + page, math.min(page * 2, 100)
  end
end

-- Runs before anything is written: in each ordering key whose head has ended, the oldest job becomes the
-- head. Burying unreadable jobs may end further heads.
function writers.first()
  local gate = next(ordering_key.left)
  while gate do
    ordering_key.left[gate] = nil
    ordering_key.go_on(gate)
    gate = next(ordering_key.left)
  end
end

-- Starts a dead letter over: with fresh counters, and with any changes of the caller. It waits from now on.
local function start_over(job)
  write('ZREM', key('dead:') .. digits(job.type), job.id)
  count(job.type, 'dead', -1)
  count(job.type, 'started_over')
  job.attempts, job.failures, job.crashes, job.holds = 0, 0, 0, 0
  drop_notes(job, 'progress', 'death')
  hold_key(job)
  ordering_key.enter(job)
end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end

-- Jobs that workers no longer hold, by worker.
local released = {}

on_write(function()
  for worker, ids in pairs(released) do
    call_many('SREM', key('held:') .. worker, ids)
  end
  released = {}
end)

local apply
-- In a block of its own, as above.
do
  -- Stores how the running attempt ended.
  local function note_attempt(job, ending, started, ended, order)
    local line = {number = job.attempt, worker = hex(job.worker), started = digits(started), ended = digits(ended),
      ending = ending, error = order.error, output = order.output}
    local list = key('attempts:') .. job.id
    local is_full = redis.call('LLEN', list) >= ATTEMPTS_KEPT
    write('RPUSH', list, cjson.encode(line))
    if is_full then
      write('LTRIM', list, -ATTEMPTS_KEPT, -1)
    end
    -- The notes flag of a job says that its list of attempts must be deleted with the job.
    if not has_notes(job) then
      set_note(job, 'tried', '1')
    end
  end

  local function stop_running(job)
    released[job.worker] = released[job.worker] or {}
    table.insert(released[job.worker], job.id)
    if note(job, 'cancel') then
      write('SREM', key('stops:') .. job.worker, job.id)
      drop_notes(job, 'cancel')
    end
  end

  -- Applies the transition of a running job. `order` is what core decided (apply.rs); a request to stop turns
  -- any end into a cancellation. `token` settled the job, if any did; `ran_for` is how long its handler ran
  -- and `ended` when it ended, if the worker has reported them.
  function apply(job, order, token, ran_for, ended)
    ended = ended or NOW
    local cancel = note(job, 'cancel')
    local ending = order.ending
    if cancel then
      ending = order.ending_if_cancelled
    end
    job.attempt = job.attempts
    for _, counter in ipairs({'attempts', 'failures', 'crashes', 'holds'}) do
      job[counter] = job[counter] + (order[counter] or 0)
    end
    local started = ran_for and ended - ran_for or job.since
    stop_running(job)
    job.flags = job.flags % 2
    if order.error then
      set_note(job, 'error', order.error)
    end
    local place = cancel and 'cancelled' or order.place
    if token and (place == 'waiting' or place == 'dead') then
      set_note(job, 'settled', token)
    elseif token then
      -- The job cannot start over, so its state keeps the settling token for good.
      drop_notes(job, 'settled')
    end
    if ending and place ~= 'succeeded' then
      note_attempt(job, ending, started, ended, order)
    end
    job.since = started
    if place == 'waiting' then
      job.due = order.after and NOW + order.after or job.due
      if order.retried then
        count(job.type, 'retried')
      end
      enter_waiting(job, job.crashes > 0 and order.gate_if_crashed or order.gate)
    elseif place == 'succeeded' then
      local keeps = kind(job.type).keeps_result
      local output = keeps and order.output_if_kept or order.output
      if keeps and order.result then
        set_note(job, 'result', order.result)
      end
      if output then
        set_note(job, 'output', output)
      end
      finish(job, 's', token, ended)
    elseif place == 'dead' then
      set_note(job, 'death', order.death)
      finish(job, 'd', token, ended)
    elseif place == 'cancelled' then
      set_note(job, 'why', cancel or order.why)
      finish(job, 'c', token, ended)
    else
      error('expected waiting, succeeded, dead or cancelled as the place of a job, got ' .. tostring(place))
    end
  end
end

-- Whether this token settled a job earlier: a repeat gets the same answer.
local function settled_before(id, text, token)
  if not text then
    return redis.call('ZSCORE', key('traces'), id .. token) ~= false
  end
  local job = know(id, text)
  if not job then
    return false
  end
  local ended = job.stage == 's' or job.stage == 'd' or job.stage == 'c'
  return (ended and job.token == token) or note(job, 'settled') == token
end
