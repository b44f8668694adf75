-- turns: which fairness key of a priority has its turn, and which jobs are in the lines of fairness keys. A
-- script may have 200 local names at a time, so all of it is in the table `lines`.
-- keys later, notes:, ring

-- Limits of one claim: FAIRNESS_KEYS_MAX fairness keys over all types together, and NAMELESS_MAX of the first
-- jobs of the lanes. These are read for jobs that were stored without a fairness key before other jobs had
-- one. But at least EACH_MIN are read for each type or lane, however many there are.
lines.FAIRNESS_KEYS_MAX, lines.NAMELESS_MAX, lines.EACH_MIN = 200, 100, 10
-- The minimum that is read at once behind wrong entries of a line.
lines.READ_ON = 20
-- The offset of the due time in a state.
lines.DUE_AT = 16

-- The part of a limit for each of `count` types or lanes.
function lines.part_of(most, count)
  return math.max(math.floor(most / count), lines.EACH_MIN)
end

-- Moves fairness keys that fall due to the ring, and adds them to `found`.
function lines.let_fall_due(type, priority, most, found)
  local later, ring = lines.key('later', type, priority), lines.key('ring', type, priority)
  for _, fairness_key in ipairs(lines.query('ZRANGEBYSCORE', later, '-inf', NOW_DIGITS, 'LIMIT', 0, most) or {}) do
    lines.write('ZREM', later, fairness_key)
    -- If this script later records that the next job of this key falls due later, it must not go by the score
    -- that is being removed.
    lines.later[later] = lines.later[later] or {}
    lines.later[later][fairness_key] = math.huge
    lines.write('ZADD', ring, 0, fairness_key)
    found[fairness_key] = true
  end
end

-- The fairness keys in the ring behind the one that was served last, and then from the front, at most `most`.
-- Returns the last of them, if there may be more behind it.
function lines.next_in_ring(type, priority, last, most, found)
  local ring = lines.key('ring', type, priority)
  local fairness_keys = lines.query('ZRANGEBYLEX', ring, last and '(' .. last or '-', '+', 'LIMIT', 0, most) or {}
  if last and #fairness_keys < most then
    for _, fairness_key in ipairs(lines.query('ZRANGEBYLEX', ring, '-', '[' .. last, 'LIMIT', 0, most - #fairness_keys) or {}) do
      fairness_keys[#fairness_keys + 1] = fairness_key
    end
  end
  for _, fairness_key in ipairs(fairness_keys) do
    found[fairness_key] = true
  end
  return #fairness_keys >= most and fairness_keys[#fairness_keys] or nil
end

-- Whether a line contains a due job. If not, its key leaves the ring, until its first job falls due or for
-- good.
function lines.is_due(type, priority, fairness_key)
  local found = lines.query('ZRANGEBYSCORE', lines.line(type, priority, fairness_key), '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local head = found and tonumber(found[2])
  if head and head <= NOW then
    return true
  end
  lines.write('ZREM', lines.key('ring', type, priority), fairness_key)
  if head then
    lines.fall_due(type, priority, fairness_key, head)
  end
  return false
end

-- The fairness keys of a type that have a due job. If no line contains any job, the mark of the priority is
-- removed. Returns up to which fairness key it has read, if there may be more behind it.
function lines.due_fairness_keys(type, priority, last, most, fairness_keys)
  local found, is_any = {}, false
  lines.let_fall_due(type, priority, most, found)
  local read_upto = lines.next_in_ring(type, priority, last, most, found)
  for fairness_key in pairs(found) do
    is_any = true
    if lines.is_due(type, priority, fairness_key) then
      fairness_keys[fairness_key] = true
    end
  end
  if not is_any and redis.call('EXISTS', lines.key('later', type, priority)) == 0 then
    close_lane(type, lines.mark(priority))
  end
  return read_upto
end

-- Deletes the lines of a priority of a type without waiting jobs, some at a time.
function lines.drop(type, priority)
  local is_rest = true
  for _, what in ipairs({'ring', 'later'}) do
    local name = lines.key(what, type, priority)
    local fairness_keys = lines.query('ZRANGE', name, 0, lines.FAIRNESS_KEYS_MAX - 1) or {}
    for _, fairness_key in ipairs(fairness_keys) do
      lines.write('UNLINK', lines.line(type, priority, fairness_key))
      lines.write('ZREM', name, fairness_key)
    end
    is_rest = is_rest and #fairness_keys < lines.FAIRNESS_KEYS_MAX
  end
  if is_rest then
    close_lane(type, lines.mark(priority))
  end
end

-- Whether the turn of one fairness key comes before that of another: behind the one that was served last, and
-- then from the front.
function lines.comes_before(a, b, last)
  local a_is_behind, b_is_behind = not last or a > last, not last or b > last
  if a_is_behind ~= b_is_behind then
    return a_is_behind
  end
  return a < b
end

function lines.by_turns(fairness_keys, last)
  local order = {}
  for fairness_key in pairs(fairness_keys) do
    order[#order + 1] = fairness_key
  end
  table.sort(order, function(a, b)
    return lines.comes_before(a, b, last)
  end)
  return order
end

-- When a job falls due, by its state. A damaged line may contain another time.
function lines.due_of(text)
  return (struct.unpack('>I8', text, lines.DUE_AT))
end

-- Whether a job waits without a gate, with the type and priority of a line.
function lines.belongs_in(type, priority, text)
  local stage = text and #text == HEAD_BYTES and string.sub(text, 1, 1)
  local of_type, of_priority
  if stage then
    of_type, of_priority = struct.unpack('>I4B', text, 3)
  end
  return (stage == 'w' or stage == 'f') and of_type == type and of_priority == priority
end

function lines.add(turns, type, priority, id, text)
  if not lines.met[id] then
    turns[#turns + 1] = {id = id, due = lines.due_of(text), type = type,
      lane = lane_key(type, string.sub(text, 1, 1) == 'w' and ready_lane(priority) or scheduled_lane(priority))}
  end
end

-- The first jobs of a line, at most `limit`; jobs that this script has read before are skipped.
function lines.read_line(turns, type, priority, fairness_key, limit)
  local name = lines.line(type, priority, fairness_key)
  local from, before = 0, #turns
  while #turns - before < limit do
    local most = from == 0 and limit or math.max(limit, lines.READ_ON)
    local ids = lines.query('ZRANGEBYSCORE', name, '-inf', NOW_DIGITS, 'LIMIT', from, most) or {}
    for i, text in ipairs(get_jobs(STATE, ids)) do
      local belongs_here = lines.belongs_in(type, priority, text)
      if belongs_here and lines.due_of(text) > NOW then
        lines.write('ZADD', name, digits(lines.due_of(text)), ids[i])
        lines.fall_due(type, priority, fairness_key, lines.due_of(text))
      elseif belongs_here then
        lines.add(turns, type, priority, ids[i], text)
      elseif not lines.met[ids[i]] then
        lines.write('ZREM', name, ids[i])
      end
    end
    from = from + #ids
    if #ids < most or from > limit + lines.FAIRNESS_KEYS_MAX then
      return
    end
  end
end

-- The first jobs of a lane that are in no line.
function lines.read_nameless(turns, lane, priority, most)
  local ids = redis.call('ZRANGEBYSCORE', lane.key, '-inf', NOW_DIGITS, 'LIMIT', 0, most)
  for i, text in ipairs(get_jobs(STATE, ids)) do
    local has_fairness_key = text and lines.belongs_in(lane.type, priority, text) and string.byte(text, 2) % 2 == 1
      and redis.call('HEXISTS', key('notes:') .. ids[i], 'fairness_key') == 1
    if text and not has_fairness_key and lines.belongs_in(lane.type, priority, text)
      and not lines.query('ZSCORE', lines.line(lane.type, priority, ''), ids[i]) then
      lines.add(turns, lane.type, priority, ids[i], text)
    end
  end
end

-- The first jobs of a fairness key over all types.
function lines.first_of_fairness_key(lanes, types, priority, fairness_key, limit)
  local turns = {}
  for type in pairs(types) do
    lines.read_line(turns, type, priority, fairness_key, limit)
  end
  for _, lane in ipairs(fairness_key == '' and lanes or {}) do
    lines.read_nameless(turns, lane, priority, lines.part_of(lines.NAMELESS_MAX, #lanes))
  end
  table.sort(turns, function(a, b)
    return a.due < b.due or (a.due == b.due and a.id < b.id)
  end)
  local first = {}
  for i = 1, math.min(limit, #turns) do
    first[i] = turns[i]
  end
  return first
end

-- The first job of each line, then the second of each: jobs start in this order.
function lines.interleave(per_key)
  local all, n = {}, 1
  repeat
    local before = #all
    for _, turns in ipairs(per_key) do
      all[#all + 1] = turns[n]
    end
    n = n + 1
  until #all == before
  return all
end

-- Divides the room as core's `fairness.rs` does: as equally as possible, the earlier keys get one more, and
-- turns go on where they were.
function lines.deal(order, room)
  local portions, count = {}, math.min(#order, room)
  for i = 1, count do
    portions[i] = math.floor(room / count) + (i <= room % count and 1 or 0)
  end
  return portions, order[room % count == 0 and count or room % count]
end
