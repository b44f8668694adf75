-- claim: claims ready jobs for a live worker, in the order that core defines.
-- keys expiring, foresight, held:, notes:, spent, turns, waiters:, worker:
-- ARGV claim token, worker, the maximum number of jobs, the maximum number of boosted jobs, '' or the number
--      of crashes that the one suspect may have, the reason with which expired jobs are cancelled; number of
--      queues, then each as parts/lanes.lua says
-- answers {'dead'} if the worker has no live row; else {'', jobs, next due}: for each job its id, state, body
--      and notes
local token, worker, room, boosted_room, crashes_max, expired_reason =
  arg(), arg(), number_arg(), number_arg(), arg(), arg()
local queues = queue_args()

do
  local row = redis.call('HMGET', key('worker:') .. worker, 'since', 'dead', 'leaving')
  if not row[1] or row[2] or row[3] then
    return answer({'dead'})
  end
end

local HELD = key('held:') .. worker
local jobs = {}
local taken = 0
-- The writes that follow once everything has been read: states of claimed jobs with their ids, and the ids
-- alone.
local states, mine = {}, {}
-- By the key of a lane: lists of ids that leave the lane, their number, and whether they are the first jobs
-- of the lane.
local leaving = {}
-- Ids of jobs that this claim found and that cannot be read.
local damaged = {}
-- The claim cancels expired jobs that it finds. The limit bounds the time that this takes.
local expired_room = CLAIM_MAX

local take
-- In a block of its own: a function may have 200 local names at a time, and all parts of a script share them.
do
  local CLAIMED = struct.pack(CLAIM, token, worker, NOW)
  local FIRST_ATTEMPT = '\0\0\0\1'

  -- The state of a job that runs from now on.
  local function running(text, flags)
    local attempts = string.sub(text, 24, 27)
    if attempts == '\0\0\0\0' then
      attempts = FIRST_ATTEMPT
    else
      attempts = struct.pack('>I4', struct.unpack('>I4', attempts) + 1)
    end
    return 'r' .. string.char(flags) .. string.sub(text, 3, 23) .. attempts .. string.sub(text, 28, 39) .. CLAIMED
  end

  -- Whether a job with these notes may start. A job that has expired is cancelled instead.
  local function may_start(id, text, notes)
    local job = know(id, text)
    job.stored = {}
    for i = 1, #notes, 2 do
      job.stored[notes[i]] = notes[i + 1]
    end
    if not note(job, 'expires') then
      return true
    end
    local expires = expiry(job)
    if expires and expires <= NOW then
      cancel_waiting(job, expired_reason)
      return false
    end
    write('ZREM', key('expiring'), id)
    return true
  end

  -- Whether a job that is listed in a lane waits. A job that cannot be read is recorded as damaged.
  local function does_wait(id, text)
    if #text == HEAD_BYTES and is_sound(text) then
      return true
    end
    damaged[#damaged + 1] = id
    return false
  end

  -- The lines that contain claimed jobs, with the ids of these jobs; and all ids that this script has read
  -- and does not read again.
  lines.left, lines.met = {}, {}

  -- Removes a claimed job from its line, too.
  function lines.leave_claimed(id, text, notes)
    local type, priority = struct.unpack('>I4B', text, 3)
    if string.sub(text, 1, 1) == 'u' or not lines.are_used(type, priority) then
      return
    end
    local fairness_key = ''
    for i = 1, #notes, 2 do
      fairness_key = notes[i] == 'fairness_key' and notes[i + 1] or fairness_key
    end
    local name = lines.line(type, priority, fairness_key)
    lines.left[name] = lines.left[name] or {}
    table.insert(lines.left[name], id)
  end

  -- Makes the worker the holder of these jobs. Returns whether all of them were claimed: some may have
  -- expired.
  function take(ids, boosted)
    local texts, bodies = get_jobs(STATE, ids), get_jobs(BODY, ids)
    local before = #mine
    for i, id in ipairs(ids) do
      local text = texts[i]
      lines.met[id] = true
      local flags = text and does_wait(id, text) and string.byte(text, 2) % 2
      local notes = flags == 1 and redis.call('HGETALL', key('notes:') .. id) or ''
      if flags and (flags == 0 or may_start(id, text, notes)) then
        lines.leave_claimed(id, text, notes)
        local state = running(text, flags + (boosted and 2 or 0))
        states[#states + 1] = id
        states[#states + 1] = state
        mine[#mine + 1] = id
        jobs[#jobs + 1] = id
        jobs[#jobs + 1] = state
        jobs[#jobs + 1] = bodies[i]
        jobs[#jobs + 1] = notes
      else
        expired_room = expired_room - 1
      end
    end
    local more = #mine - before
    taken = taken + more
    room = room - more
    if boosted then
      boosted_room = boosted_room - more
    end
    return more == #ids
  end
end

local function room_in(range)
  if expired_room <= 0 then
    return 0
  end
  return range.boosted and math.min(room, boosted_room) or room
end

local take_range
-- In a block of its own, as above.
do
  -- The found jobs that this claim has not taken yet. Each job has `step` values.
  local function not_staged(found, left, limit, step)
    local others, leave = {}, {}
    for _, ids in ipairs(left) do
      for _, id in ipairs(ids) do
        leave[id] = true
      end
    end
    for i = 1, #found, step do
      if not leave[found[i]] and #others < limit * step then
        for n = i, i + step - 1 do
          others[#others + 1] = found[n]
        end
      end
    end
    return others
  end

  -- The first jobs of one lane in a range, at most `limit`: ids, or with 'WITHSCORES' ids and due times in
  -- turn.
  local function first_in(lane, range, limit, ...)
    local after = range.after and '(' .. digits(NOW - range.after) or '-inf'
    local upto = digits(NOW - range.upto)
    local left = leaving[lane.key]
    if not left then
      return redis.call('ZRANGEBYSCORE', lane.key, after, upto, 'LIMIT', 0, limit, ...)
    end
    local found = redis.call('ZRANGEBYSCORE', lane.key, after, upto, 'LIMIT', 0, limit + left.count, ...)
    return not_staged(found, left, limit, select('#', ...) + 1)
  end

  -- Removes ids from a lane. If no job before them was skipped, they are the first of the lane, which one
  -- short command removes.
  local function leave(lane, range, ids, all_taken)
    if #ids == 0 then
      return
    end
    local left = leaving[lane.key] or {count = 0, are_first = true}
    leaving[lane.key] = left
    left.are_first = left.are_first and all_taken and not range.after
    left.count = left.count + #ids
    left[#left + 1] = ids
  end

  local first_of_all
  do
    local function comes_before(a, b)
      return a.due < b.due or (a.due == b.due and a.id < b.id)
    end

    -- The minimum that is read of each lane. A lane that turns out to hold more of the first jobs is read
    -- further.
    local READ_AT_ONCE = 20

    -- Reads on in a lane, until at least `at_least` of its jobs were read. Notes the last one if there are
    -- more behind it.
    local function read_on(lane, n, range, at_least, turns)
      local found = first_in(lane, range, at_least, 'WITHSCORES')
      for i = (lane.read or 0) * 2 + 1, #found, 2 do
        turns[#turns + 1] = {id = found[i], due = tonumber(found[i + 1]), lane = n}
      end
      lane.read = #found / 2
      lane.last = lane.read >= at_least and turns[#turns] or nil
    end

    -- The lane that has unread jobs and whose last read job comes first; nil if all lanes were read to the
    -- end.
    local function ends_first(lanes)
      local first
      for n, lane in ipairs(lanes) do
        if lane.last and (not first or comes_before(lane.last, lanes[first].last)) then
          first = n
        end
      end
      return first
    end

    local function count_upto(last, turns)
      local all = 0
      for _, turn in ipairs(turns) do
        all = all + (comes_before(last, turn) and 0 or 1)
      end
      return all
    end

    -- The first jobs of several lanes, by due time and number. Reading `limit` jobs of each lane would be too
    -- much with many lanes. The order is certain up to the last read job of each lane that has more. So the
    -- lane whose last read job comes first is read on.
    function first_of_all(lanes, range, limit)
      local turns = {}
      for n, lane in ipairs(lanes) do
        lane.read = nil
        read_on(lane, n, range, math.min(limit, math.max(math.ceil(limit / #lanes), READ_AT_ONCE)), turns)
      end
      local n = ends_first(lanes)
      while n and count_upto(lanes[n].last, turns) < limit do
        read_on(lanes[n], n, range, math.min(limit, lanes[n].read * 2), turns)
        n = ends_first(lanes)
      end
      table.sort(turns, comes_before)
      return turns
    end
  end

  -- The jobs to claim next from these lanes in this range: all ids in their order, and the ids of each lane.
  local function next_turns(lanes, range, limit)
    if #lanes == 1 then
      local ids = first_in(lanes[1], range, limit)
      return ids, {ids}
    end
    local ids, by_lane = {}, {}
    for n = 1, #lanes do
      by_lane[n] = {}
    end
    for i, turn in ipairs(first_of_all(lanes, range, limit)) do
      if i > limit then
        break
      end
      ids[i] = turn.id
      local of_lane = by_lane[turn.lane]
      of_lane[#of_lane + 1] = turn.id
    end
    return ids, by_lane
  end

  -- Moves jobs that cannot be read to the dead-letter queue. Their lane determines their type.
  local function bury_all_damaged(lanes, by_lane)
    for n, lane in ipairs(#damaged > 0 and lanes or {}) do
      for _, id in ipairs(by_lane[n]) do
        bury_damaged(id, lane.type)
      end
    end
    damaged = {}
  end

  -- Claims jobs of one range of the order, while there is room. Jobs that had expired leave room for jobs
  -- behind them.
  function take_range(lanes, range)
    local limit = room_in(range)
    while limit > 0 do
      local ids, by_lane = next_turns(lanes, range, limit)
      if #ids == 0 then
        return
      end
      local all_taken = take(ids, range.boosted)
      for n, lane in ipairs(lanes) do
        leave(lane, range, by_lane[n], all_taken)
      end
      bury_all_damaged(lanes, by_lane)
      if #ids < limit then
        return
      end
      limit = room_in(range)
    end
  end

  function lines.take_turns(turns, range)
    local ids, by_lane = {}, {}
    for i, turn in ipairs(turns) do
      ids[i] = turn.id
      by_lane[turn.lane] = by_lane[turn.lane] or {}
      table.insert(by_lane[turn.lane], turn.id)
    end
    take(ids, false)
    for name, of_lane in pairs(by_lane) do
      leave({key = name}, range, of_lane, false)
    end
  end
end

local function write_claimed()
  writers.first()
  set_jobs(STATE, states)
  call_many('SADD', HELD, mine)
  for name, left in pairs(leaving) do
    if left.are_first then
      redis.call('ZREMRANGEBYRANK', name, 0, left.count - 1)
    else
      for _, ids in ipairs(left) do
        call_many('ZREM', name, ids)
      end
    end
  end
  for name, ids in pairs(lines.left) do
    lines.write('ZREM', name, unpack(ids))
  end
end

-- Claims jobs of one range of the order by turns, if jobs there have fairness keys.
function lines.take_by_turns(queue, lanes, range)
  local types, count = {}, 0
  for _, lane in ipairs(lanes) do
    count = count + ((not types[lane.type] and lines.are_used(lane.type, range.priority)) and 1 or 0)
    types[lane.type] = true
  end
  if count == 0 then
    return
  end
  local cursor = queue.name .. ':' .. digits(range.priority)
  local served = lines.query('HGET', key('turns'), cursor)
  local last, fairness_keys = served or nil, {}
  -- The fairness key up to which all types were read, if one of the types may have more.
  local read_upto
  for type in pairs(types) do
    if lines.are_used(type, range.priority) then
      local upto = lines.due_fairness_keys(type, range.priority, last, lines.part_of(lines.FAIRNESS_KEYS_MAX, count), fairness_keys)
      read_upto = upto and (not read_upto or lines.comes_before(upto, read_upto, last)) and upto or read_upto
    end
  end
  if not next(fairness_keys) then
    return
  end
  if #lines.first_of_fairness_key(lanes, types, range.priority, '', 1) > 0 then
    fairness_keys[''] = true
  end
  local goes_on_behind
  while room_in(range) > 0 and next(fairness_keys) do
    local order = lines.by_turns(fairness_keys, last)
    local portions, next_last = lines.deal(order, room_in(range))
    local per_key = {}
    for i, portion in ipairs(portions) do
      per_key[i] = lines.first_of_fairness_key(lanes, types, range.priority, order[i], portion)
      if #per_key[i] < portion then
        fairness_keys[order[i]] = nil
      end
    end
    if not read_upto then
      goes_on_behind = next_last
    elseif not goes_on_behind then
      -- The next claim starts with the fairness keys that this claim did not read, whichever key gets the
      -- rest here.
      goes_on_behind = lines.comes_before(read_upto, next_last, last) and read_upto or next_last
    end
    last = next_last
    lines.take_turns(lines.interleave(per_key), range)
  end
  if goes_on_behind then
    lines.write('HSET', key('turns'), cursor, goes_on_behind)
  end
end

local claim_ordinary
do
  -- The lanes of each priority, without the lanes of suspects.
  local function by_priority(lanes)
    local sorted = {}
    for _, lane in ipairs(lanes) do
      local priority = priority_of(lane)
      if priority then
        sorted[priority] = sorted[priority] or {}
        table.insert(sorted[priority], lane)
      end
    end
    return sorted
  end

  local function oldest(lanes)
    local head = math.huge
    for _, lane in ipairs(lanes) do
      head = math.min(head, lane.head)
    end
    return head
  end

  function claim_ordinary(queue)
    local lanes_busy = close_empty_lanes(queue.types)
    local sorted = by_priority(lanes_busy)
    -- Without old jobs no priority is boosted, and the order is that of the eleven priorities.
    local has_risen = boosted_room > 0 and oldest(lanes_busy) <= NOW - RISES_AFTER
    for _, range in ipairs(has_risen and order_with_risen() or order_of_priorities()) do
      local lanes = sorted[range.priority]
      if lanes and oldest(lanes) <= NOW - range.upto and room_in(range) > 0 then
        if not range.boosted then
          lines.take_by_turns(queue, lanes, range)
        end
        take_range(lanes, range)
      end
    end
    for _, type in ipairs(queue.types) do
      for digit in string.gmatch(mask(type), '[0-:]') do
        local priority, is_busy = string.byte(digit) - 48, false
        for _, lane in ipairs(sorted[priority] or {}) do
          is_busy = is_busy or lane.type == type
        end
        if not is_busy then
          lines.drop(type, priority)
        end
      end
    end
  end
end

local claim_suspect
do
  -- The maximum number of suspects of a queue that are read, by due time: after a bad day, all of them would
  -- be too much.
  local SUSPECTS_READ_MAX = 500

  -- Suspects that are due and have at most `crashes_max` crashes, most urgent first.
  local function due_suspects(queue)
    local suspects = {}
    local of_each = math.max(math.floor(SUSPECTS_READ_MAX / #queue.types), 1)
    for _, type in ipairs(queue.types) do
      local ids = redis.call('ZRANGEBYSCORE', lane_key(type, 's'), '-inf', NOW_DIGITS, 'LIMIT', 0, of_each)
      for i, job in ipairs(load_all(ids)) do
        if not job or job.stage ~= 'u' then
          remove_waiting(lane_key(type, 's'), ids[i], type)
        elseif job.crashes <= tonumber(crashes_max) then
          suspects[#suspects + 1] = job
        end
      end
    end
    table.sort(suspects, function(a, b)
      if a.priority ~= b.priority then
        return a.priority < b.priority
      elseif a.due ~= b.due then
        return a.due < b.due
      end
      return a.id < b.id
    end)
    return suspects
  end

  function claim_suspect(queue)
    for _, job in ipairs(due_suspects(queue)) do
      if room > 0 and taken == 0 then
        take({job.id}, false)
        write('ZREM', lane_key(job.type, 's'), job.id)
      end
    end
  end
end

local open_types = {}
for _, queue in ipairs(queues) do
  if not queue.paused then
    for _, type in ipairs(queue.types) do
      open_types[#open_types + 1] = type
    end
  end
end

if not redis.call('ZSCORE', key('spent'), token) then
  for _, queue in ipairs(queues) do
    if not queue.paused and crashes_max == '' then
      claim_ordinary(queue)
    elseif not queue.paused and taken == 0 then
      claim_suspect(queue)
    end
  end
end

write_claimed()
write_all()
local peek = look_ahead(close_empty_lanes(open_types))

-- Whether no waiting worker knows when the next job of a queue falls due. A worker with room knows it from
-- now on, and polls at that time. A worker without room leaves the job to another worker, which must be
-- woken, unless a worker was notified before and still waits. Otherwise a busy worker would wake an idle one
-- with each of its claims.
local function is_unforeseen(queue)
  local due, name = peek[2], key('waiters:') .. queue
  if due == '' or crashes_max ~= '' then
    return false
  end
  if room > 0 then
    if ENGINE ~= '' then
      redis.call('HSET', key('foresight'), queue, due .. ' ' .. ENGINE .. ':' .. worker)
    end
    return false
  end
  local at, waiter = string.match(redis.call('HGET', key('foresight'), queue) or '', '^(%d+) (.+)$')
  local is_in_time = at and tonumber(at) > NOW and tonumber(at) <= tonumber(due)
  return not (is_in_time and redis.call('ZSCORE', name, waiter))
end

-- A worker that got less than it requested waits to be woken. A worker that got all of it does not wait, and
-- wakes the next one if it leaves due jobs behind.
for _, queue in ipairs(queues) do
  if crashes_max == '' and ENGINE ~= '' then
    wait_for(queue.name, worker, room > 0)
  end
  local leaves_more = taken > 0 and peek[1] == '1' and (crashes_max ~= '' or room <= 0 or ENGINE == '')
  if is_unforeseen(queue.name) or leaves_more then
    wake(queue.name)
  end
end

return answer({'', jobs, peek})
