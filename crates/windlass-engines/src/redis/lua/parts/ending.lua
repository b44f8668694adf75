-- ending: how jobs end, what is kept of them, and who holds which key.
--
-- Keys are in the hash keys:<type>, each with the job that holds it (14 digits), its scope (l while live, d while live or
-- dead, p for a period) and, for a period, until when. Core's rule on them is in VERDICTS, words of conflict (k keep,
-- r replace, v revive), stage of the holder (w waits, r runs, d dead, e ended), scope, whether its period is over (1) or
-- not (0), and what becomes of a newcomer: i insert, k keep, r replace or v revive.
-- keys attempts:, dead:, ended, expiring, gate:, held:, keys:, kinds, lapsing, layout, notes:, parked:, ordering_key, stops:, traces

local DAY = 24 * 60 * 60 * 1000000

local set_holder, key_holder, verdict, hold_key, free_key
-- In a block of its own: a script may have 200 names at a time.
do
  local function keys_of(type)
    return key('keys:') .. digits(type)
  end

  -- What is known of keys, by type and name, with what this script has changed; false for one that nobody holds.
  local holders = {}

  local function holder_text(type, name)
    holders[type] = holders[type] or {}
    if holders[type][name] == nil then
      holders[type][name] = redis.call('HGET', keys_of(type), name)
    end
    return holders[type][name]
  end

  -- Keys that change hands: names by type.
  local changing = {}

  -- Notes who holds a key; false for nobody.
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

  -- Which job holds a key: a table of id, scope and end of its period; nothing if none does.
  local function holder_of(type, name)
    local text = holder_text(type, name)
    if not text then
      return nil
    end
    local holder = {id = string.sub(text, 1, 14), scope = string.sub(text, 15, 15)}
    holder['until'] = tonumber(string.sub(text, 16))
    return holder
  end

  -- The same with the stage of that job.
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

  -- Gives a job its key, if it has one. Whoever calls has made sure that nobody else holds it.
  function hold_key(job)
    local name, scope = note(job, 'key'), note(job, 'scope') or 'l'
    if not name then
      return
    end
    local period = tonumber(string.sub(scope, 2))
    local lasts = period and digits(job.enqueued + period) or ''
    set_holder(job.type, name, job.id .. string.sub(scope, 1, 1) .. lasts)
  end

  -- Frees the key of a job that ended in this way (d or e), unless it is to be held longer. It may have passed to another
  -- job while this one lay dead.
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

-- Ordering keys: jobs whose note `ordering_key`, the gate of its line, is the same run one at a time. The hash `ordering_key` says by gate which job
-- is out; the others stand behind the gate. All of it is in one table, since a script has few names left.
local ordering_key = {out = {}, left = {}}

-- The job that is noted as out, with what this script has changed; false if none is.
function ordering_key.noted(gate)
  if ordering_key.out[gate] == nil then
    ordering_key.out[gate] = redis.call('HGET', key('ordering_key'), gate)
  end
  return ordering_key.out[gate]
end

-- The job of an ordering key that is out; false if none is. The note alone does not tell: a process of a version that knows nothing of
-- ordering_key may have ended that job, or its state was lost. It would block its ordering key for ever.
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

-- Lets the oldest in line out, if nobody is.
function ordering_key.go_on(gate)
  local job = not ordering_key.head(gate) and ordering keys.oldest(gate)
  if job then
    leave_waiting(job)
    enter_waiting(job, gate_by_history(job))
    ordering_key.set_head(gate, job.id)
  end
end

-- Lets a job wait that is new or was started over: behind nothing, or in the line of its ordering key if another is out.
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

-- A job has ended. Who goes out next is looked for when all that this script ends is known.
function ordering_key.leave(job)
  local gate = note(job, 'ordering_key')
  if gate and (ordering_key.noted(gate) == job.id or not (ordering_key.left[gate] or ordering_key.head(gate))) then
    ordering_key.set_head(gate, false)
    ordering_key.left[gate] = true
  end
end

-- As many as the memory engine keeps: more would outgrow the jobs themselves.
ordering_key.traces_max = 100000

-- Notes by which claim jobs ended of which nothing else is kept: pairs of now, and job and token. And jobs of which nothing
-- is left.
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

-- Puts a job that no longer waits or runs where it ended (s, d or c). `token` settled it, if any did; `ended` is when its last
-- attempt ended, if that was not now.
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
    -- A job that waits may have been settled before: whoever asks again about that is told so.
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

-- Makes a job whose state is damaged a dead letter that says so. What it waited for and how often it was tried is lost with
-- its state. `type` is given by whoever knows it from elsewhere.
local function give_up(id, type)
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

-- The oldest of a line that this script leaves in it, if there is one: nearly always the first. Whoever stands there and does not
-- belong there is taken away.
function ordering_key.oldest(gate)
  local from, page = 0, 1
  while true do
    local ids = redis.call('ZRANGE', key('gate:') .. gate, from, from + page - 1)
    for i, job in ipairs(load_all(ids)) do
      if job and job.stage == 'p' and gate_of(job) == gate then
        return job
      end
      leave_gate(gate, ids[i])
      give_up(ids[i])
    end
    if #ids < page then
      return nil
    end
    from, page = from + page, math.min(page * 2, 100)
  end
end

-- Before anything is written: in each ordering key whose job that was out has ended, the oldest goes out. Giving up what cannot be read
-- may end further ones.
function writers.first()
  local gate = next(ordering_key.left)
  while gate do
    ordering_key.left[gate] = nil
    ordering_key.go_on(gate)
    gate = next(ordering_key.left)
  end
end

-- Starts a dead letter over: fresh counters, and whatever the caller has changed. It waits from now on.
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

-- Jobs that workers hold no more, by worker.
local let_go = {}

on_write(function()
  for worker, ids in pairs(let_go) do
    call_many('SREM', key('held:') .. worker, ids)
  end
  let_go = {}
end)

local apply
-- In a block of its own, as above.
do
  -- Remembers how the running attempt ended.
  local function note_attempt(job, ending, started, ended, order)
    local line = {number = job.attempt, worker = hex(job.worker), started = digits(started), ended = digits(ended),
      ending = ending, error = order.error, output = order.output}
    local list = key('attempts:') .. job.id
    local is_full = redis.call('LLEN', list) >= ATTEMPTS_KEPT
    write('RPUSH', list, cjson.encode(line))
    if is_full then
      write('LTRIM', list, -ATTEMPTS_KEPT, -1)
    end
    -- That there are notes is what tells that the list must go with the job.
    if not has_notes(job) then
      set_note(job, 'tried', '1')
    end
  end

  local function stop_running(job)
    let_go[job.worker] = let_go[job.worker] or {}
    table.insert(let_go[job.worker], job.id)
    if note(job, 'cancel') then
      write('SREM', key('stops:') .. job.worker, job.id)
      drop_notes(job, 'cancel')
    end
  end

  -- Where a running job lands. `order` is what core decided (apply.rs); a request to stop turns any end into a
  -- cancellation. `token` settled it, if any did; `ran_for` is how long its handler ran and `ended` when it ended,
  -- if the worker has told.
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
      -- It cannot start over, so its state tells who settled it for good.
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
      error('expected a place where a job can land, got ' .. tostring(place))
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
