-- ending: how jobs end, what is kept of them, and who holds which key.
--
-- Keys are in the hash keys:<type>, each with the job that holds it (14 digits), its scope (l while live, d while live or
-- dead, p for a period) and, for a period, until when. Core's rule on them is in VERDICTS, words of conflict (k keep,
-- r replace, v revive), stage of the holder (w waits, r runs, d dead, e ended), scope, whether its period is over (1) or
-- not (0), and what becomes of a newcomer: i insert, k keep, r replace or v revive.

local DAY = 24 * 60 * 60 * 1000000

local function keys_of(type)
  return key('keys:') .. digits(type)
end

-- Which job holds a key: a table of id, scope and end of its period; nothing if none does.
local function holder_of(type, name)
  local text = redis.call('HGET', keys_of(type), name)
  if not text then
    return nil
  end
  local holder = {id = string.sub(text, 1, 14), scope = string.sub(text, 15, 15)}
  holder['until'] = tonumber(string.sub(text, 16))
  return holder
end

-- The same with the stage of that job.
local function key_holder(type, name)
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

local function verdict(holder, on_conflict)
  local lasts = holder['until'] and holder['until'] > NOW
  return string.match(VERDICTS, on_conflict .. holder.stage .. holder.scope .. (lasts and '0' or '1') .. '(%a)')
end

-- Gives a job its key, if it has one. Whoever calls has made sure that nobody else holds it.
local function hold_key(job)
  local name, scope = note(job, 'key'), note(job, 'scope') or 'l'
  if not name then
    return
  end
  local period = tonumber(string.sub(scope, 2))
  local lasts = period and digits(job.enqueued + period) or ''
  redis.call('HSET', keys_of(job.type), name, job.id .. string.sub(scope, 1, 1) .. lasts)
end

-- Frees the key of a job that ended in this way (d or e), unless it is to be held longer. It may have passed to another
-- job while this one lay dead.
local function free_key(job, stage)
  local name = note(job, 'key')
  local holder = name and holder_of(job.type, name)
  if not holder or holder.id ~= job.id then
    return
  end
  holder.stage = stage
  if verdict(holder, 'k') == 'i' then
    redis.call('HDEL', keys_of(job.type), name)
  elseif holder['until'] then
    redis.call('ZADD', key('lapsing'), holder['until'], digits(job.type) .. ':' .. name)
  end
end

-- As many as the memory engine keeps: more would outgrow the jobs themselves.
local TRACES_MAX = 100000

-- Notes by which claim jobs ended of which nothing else is kept: pairs of now, and job and token.
local function add_traces(pairs_of_them)
  if #pairs_of_them > 0 then
    call_many('ZADD', key('traces'), pairs_of_them)
    redis.call('ZREMRANGEBYRANK', key('traces'), 0, - TRACES_MAX - 1)
  end
end

-- Nothing is left of a job.
local function forget(id, flags)
  redis.call('HDEL', hash_of(STATE, id), id)
  redis.call('HDEL', hash_of(BODY, id), id)
  if flags % 2 == 1 then
    redis.call('UNLINK', key('notes:') .. id, key('attempts:') .. id)
  end
end

local TOTALS = {s = 'succeeded', d = 'dead', c = 'cancelled'}

-- Puts a job that no longer waits or runs where it ended (s, d or c). `token` settled it, if any did.
local function finish(job, stage, token)
  job.stage, job.at = stage, NOW
  job.token, job.worker, job.since = token or NO_TOKEN, job.worker or NO_TOKEN, job.since or 0
  count(job.type, TOTALS[stage])
  free_key(job, stage == 'd' and 'd' or 'e')
  local days = kind(job.type).days
  if stage == 'd' then
    redis.call('ZADD', key('dead:') .. digits(job.type), job.id, job.id)
  elseif days > 0 then
    redis.call('ZADD', key('ended'), NOW + days * DAY, job.id)
  else
    -- A job that waits may have been settled before: whoever asks again about that is told so.
    local settled_by = token or note(job, 'settled')
    forget(job.id, job.flags)
    if settled_by then
      add_traces({NOW_DIGITS, job.id .. settled_by})
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
  local text = get_job(STATE, id)
  if not text or is_sound(text) then
    return
  end
  local job = {id = id, flags = 1, type = type or damaged_type(text), priority = PRIORITY_LAST, enqueued = NOW, due = NOW,
    attempts = 0, failures = 0, crashes = 0, holds = 0}
  redis.call('ZREM', key('parked:') .. digits(job.type), id)
  redis.call('ZREM', key('expiring'), id)
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

-- Starts a dead letter over: fresh counters, and whatever the caller has changed. It waits from now on.
local function start_over(job)
  redis.call('ZREM', key('dead:') .. digits(job.type), job.id)
  count(job.type, 'dead', -1)
  job.attempts, job.failures, job.crashes, job.holds = 0, 0, 0, 0
  drop_notes(job, 'progress', 'death')
  hold_key(job)
  enter_waiting(job, '')
end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end

-- Remembers how the running attempt ended.
local function note_attempt(job, ending, started, order)
  local line = {number = job.attempt, worker = hex(job.worker), started = digits(started), ended = NOW_DIGITS,
    ending = ending, error = order.error, output = order.output}
  local list = key('attempts:') .. job.id
  redis.call('RPUSH', list, cjson.encode(line))
  redis.call('LTRIM', list, -ATTEMPTS_KEPT, -1)
  -- That there are notes is what tells that the list must go with the job.
  if not has_notes(job) then
    set_note(job, 'tried', '1')
  end
end

local function stop_running(job)
  redis.call('SREM', key('held:') .. job.worker, job.id)
  if note(job, 'cancel') then
    redis.call('SREM', key('stops:') .. job.worker, job.id)
    drop_notes(job, 'cancel')
  end
end

-- Where a running job lands. `order` is what core decided (land.rs); a request to stop turns any end into a
-- cancellation. `token` settled it, if any did; `ran_for` is how long its handler ran, if anybody told.
local function land(job, order, token, ran_for)
  local cancel = note(job, 'cancel')
  local ending = order.ending
  if cancel then
    ending = order.ending_if_cancelled
  end
  job.attempt = job.attempts
  for _, counter in ipairs({'attempts', 'failures', 'crashes', 'holds'}) do
    job[counter] = job[counter] + (order[counter] or 0)
  end
  local started = ran_for and NOW - ran_for or job.since
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
    note_attempt(job, ending, started, order)
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
    finish(job, 's', token)
  elseif place == 'dead' then
    set_note(job, 'death', order.death)
    finish(job, 'd', token)
  else
    set_note(job, 'why', cancel or order.why)
    finish(job, 'c', token)
  end
end

-- Whether this token settled a job earlier: a repeat gets the same answer.
local function settled_before(id, text, token)
  if not text then
    return redis.call('ZSCORE', key('traces'), id .. token) ~= false
  end
  local job = decode(id, text)
  if not job then
    return false
  end
  local ended = job.stage == 's' or job.stage == 'd' or job.stage == 'c'
  return (ended and job.token == token) or note(job, 'settled') == token
end
