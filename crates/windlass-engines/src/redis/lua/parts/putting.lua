-- putting: enqueues new jobs, each judged by its key and by the room of its queue. Arguments about them:
--   queues with a limit: their number, for each: capacity, refusal, number of types, types;
--   a job: head (type I4, priority B); when it falls due ('' now, '+' a span or '@' an instant,
-- microseconds);
--     body (label, options and payload, a line each); and its special properties as JSON, or '':
--       key, scope, conflict   as in parts/ending.lua
--       ordering_key           the gate of the ordering key that it belongs to
--       group                  the group that it belongs to
--       fairness_key           whose work it is
--       expires                in the same form as when it falls due
--       refused                why core refuses it; it is not stored
--       room_first             whether a full queue takes precedence over this refusal
-- keys counts, sequence

-- A function has room for 200 local names. Names between `do` and `end` take none of it from the names that
-- follow.
local IS_OLDER, read_limits, enqueue_next, enqueue_again, frees_enough_room, make_room, write_enqueued, last_number
do
  local last_id = tonumber(redis.call('GET', key('sequence')) or 0)
  -- Whether the store has forgotten jobs that the caller knows of: then nothing may be enqueued.
  IS_OLDER = last_id < tonumber(ARGV[6])

  -- How much room is left in the queues that have a limit, by type.
  local function unfinished(type)
    local field = digits(type) .. ':'
    local counts = redis.call('HMGET', key('counts'), field .. 'enqueued', field .. 'succeeded', field .. 'dead',
      field .. 'cancelled')
    local function number(i)
      return tonumber(counts[i]) or 0
    end
    return number(1) - number(2) - number(3) - number(4)
  end

  local limits = {}
  function read_limits()
    for _ = 1, number_arg() do
      local limit = {room = number_arg(), refusal = arg()}
      for _ = 1, number_arg() do
        local type = number_arg()
        limit.room = limit.room - unfinished(type)
        limits[type] = limit
      end
    end
  end

  local function instant(when)
    if when == '' then
      return NOW
    end
    local micros = tonumber(string.sub(when, 2))
    return string.sub(when, 1, 1) == '+' and NOW + micros or micros
  end

  local function next_id()
    last_id = last_id + 1
    return string.format('%014d', last_id)
  end

  -- Jobs without special properties are written together at the end, and so are the bodies of all jobs.
  local NO_COUNTERS = string.rep('\0', 16)
  local states, bodies = {}, {}
  -- Due times and ids of ready and of scheduled jobs, by head: that is, by lane.
  local ready, scheduled = {}, {}

  local NOW_BYTES = struct.pack('>I8', NOW)

  local function insert_plain(type, priority, head, due, body)
    local id = next_id()
    local is_ready = due <= NOW
    local due_bytes = due == NOW and NOW_BYTES or struct.pack('>I8', due)
    states[#states + 1] = id
    states[#states + 1] = (is_ready and 'w\0' or 'f\0') .. head .. NOW_BYTES .. due_bytes .. NO_COUNTERS
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = body
    local lanes = is_ready and ready or scheduled
    local waiting = lanes[head]
    if not waiting then
      waiting = {type = type, letter = is_ready and ready_lane(priority) or scheduled_lane(priority)}
      lanes[head] = waiting
    end
    if lines.are_used(type, priority) then
      lines.enter(type, priority, '', id, due)
    end
    waiting[#waiting + 1] = due == NOW and NOW_DIGITS or digits(due)
    waiting[#waiting + 1] = id
    count(type, 'enqueued')
  end

  -- Lists lanes before they contain anything.
  local function open_plain_lanes()
    for _, lanes in ipairs({ready, scheduled}) do
      for _, waiting in pairs(lanes) do
        open_lane(waiting.type, waiting.letter)
        hint(waiting.type)
      end
    end
  end

  local function write_plain()
    set_jobs(STATE, states)
    set_jobs(BODY, bodies)
    for _, lanes in ipairs({ready, scheduled}) do
      for _, waiting in pairs(lanes) do
        call_many('ZADD', lane_key(waiting.type, waiting.letter), waiting)
      end
    end
  end

  -- Bodies of jobs with a key, which a later job of this batch may renew.
  local bodies_by_id = {}

  local function set_body(id, body)
    bodies_by_id[id] = body
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = body
  end

  local function body_of(id)
    return bodies_by_id[id] or get_job(BODY, id)
  end

  local function insert_special(type, priority, due, body, special)
    local job = {id = next_id(), flags = 0, type = type, priority = priority, enqueued = NOW, due = due, attempts = 0,
      failures = 0, crashes = 0, holds = 0}
    if special.expires then
      set_note(job, 'expires', digits(instant(special.expires)))
    end
    if special.key then
      set_note(job, 'key', special.key)
      set_note(job, 'scope', special.scope)
    end
    if special.ordering_key then
      set_note(job, 'ordering_key', special.ordering_key)
    end
    if special.group then
      set_note(job, 'group', special.group)
    end
    if special.fairness_key then
      set_note(job, 'fairness_key', special.fairness_key)
    end
    hold_key(job)
    set_body(job.id, body)
    count(type, 'enqueued')
    ordering_key.enter(job)
  end

  -- Applies the values of a new job to the job that holds its key: label, payload, priority, due time and
  -- expiry.
  local function renew(job, priority, due, body, special)
    local options = string.match(body_of(job.id) or '\n', '^[^\n]*\n([^\n]*)')
    local label, payload = string.match(body, '^([^\n]*)\n[^\n]*\n(.*)$')
    set_body(job.id, label .. '\n' .. (options or '') .. '\n' .. payload)
    job.priority, job.due = priority, due
    if special.expires then
      set_note(job, 'expires', digits(instant(special.expires)))
    else
      drop_notes(job, 'expires')
    end
  end

  local function replace(id, ...)
    local job = load(id)
    local gate = gate_of(job)
    leave_waiting(job)
    renew(job, ...)
    enter_waiting(job, gate)
    return 'r' .. id
  end

  local function revive(id, ...)
    local job = load(id)
    renew(job, ...)
    start_over(job)
    return 'v' .. id
  end

  -- The answer to a job that core refused, or whose queue is full; nil if it is accepted.
  local function refusal(decision, limit, special)
    local is_full = decision == 'i' and limit and limit.room <= 0
    if special.refused and not (special.room_first and is_full) then
      return 'x' .. special.refused
    end
    return is_full and 'x' .. limit.refusal or nil
  end

  local NOTHING = {}

  -- Stores one job. Returns its answer, or nil if it is a new job.
  local function enqueue_one(type, priority, head, when, body, text)
    local special = text == '' and NOTHING or cjson.decode(text)
    local holder = special.key and key_holder(type, special.key)
    local decision = holder and verdict(holder, special.conflict) or 'i'
    local limit = limits[type]
    local refused = refusal(decision, limit, special)
    if refused then
      return refused
    end
    if limit and (decision == 'i' or decision == 'v') then
      limit.room = limit.room - 1
    end
    local due = instant(when)
    if decision == 'k' then
      return 'k' .. holder.id
    elseif decision == 'r' then
      return replace(holder.id, priority, due, body, special)
    elseif decision == 'v' then
      return revive(holder.id, priority, due, body, special)
    elseif text == '' then
      insert_plain(type, priority, head, due, body)
    else
      insert_special(type, priority, due, body, special)
    end
  end

  -- Batches have few types and priorities, so each head is read once.
  local heads = {[''] = {type = 0, priority = 0}}
  local function read_head(head)
    if not heads[head] then
      local type, priority = struct.unpack('>I4B', head)
      heads[head] = {type = type, priority = priority}
    end
    return heads[head]
  end

  -- The job that was enqueued or refused last.
  local head, when, body, special

  -- Stores the job that the next arguments describe, unless it is only to be skipped. Returns its answer, or
  -- nil if it is a new job: then `last_number` is its number.
  function enqueue_next(is_passed_over)
    head, when, body, special = arg(), arg(), arg(), arg()
    if not is_passed_over then
      return enqueue_again()
    end
  end

  -- Stores the job that was refused just now.
  function enqueue_again()
    local of = read_head(head)
    return enqueue_one(of.type, of.priority, head, when, body, special)
  end

  -- Whether the job with this answer was refused because its queue is full, and the end of another job makes
  -- enough room.
  function frees_enough_room(answer, job)
    local limit = limits[read_head(head).type]
    return limit ~= nil and answer == 'x' .. limit.refusal and limits[job.type] == limit and limit.room == 0
  end

  -- Records that a job that waited has ended: there is room for another in its queue.
  function make_room(job)
    local limit = limits[job.type]
    if limit then
      limit.room = limit.room + 1
    end
  end

  -- Writes all enqueued jobs.
  function write_enqueued()
    open_plain_lanes()
    writers.first()
    -- Before anything else: should this script stop half way all the same, the numbers of the jobs that it
    -- has stored are not assigned again.
    redis.call('SET', key('sequence'), digits(last_id))
    write_all()
    write_plain()
  end

  -- The number of the last new job.
  function last_number()
    return last_id
  end
end
