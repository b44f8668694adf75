-- lanes: the lanes of the requested types, and when their next jobs fall due.
-- keys lanes

-- Reads at once which lanes of these types contain jobs.
local function read_masks(types)
  local fields = {}
  for i, type in ipairs(types) do
    fields[i] = digits(type)
  end
  for i, letters in ipairs(get_many(key('lanes'), fields)) do
    masks[types[i]] = letters or ''
  end
end

-- The due time of the first job of a lane that falls due after `after`; nil if there is none.
local function first_due(name, after)
  local first = redis.call('ZRANGEBYSCORE', name, after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and tonumber(first[2])
end

-- The lanes of these types that contain jobs: tables of type, letter, key and due time of the first job. And
-- the lanes that turned out to be empty, for callers that may write.
local function busy_lanes(types)
  local lanes, empty = {}, {}
  for _, type in ipairs(types) do
    for letter in string.gmatch(mask(type), '[a-kA-Ks]') do
      local name = lane_key(type, letter)
      local head = first_due(name, '-inf')
      if head then
        lanes[#lanes + 1] = {type = type, letter = letter, key = name, head = head}
      else
        empty[#empty + 1] = {type = type, letter = letter}
      end
    end
  end
  return lanes, empty
end

-- Returns the lanes that contain jobs, and closes the empty ones, so that no script reads them again.
local function close_empty_lanes(types)
  local lanes, empty = busy_lanes(types)
  for _, lane in ipairs(empty) do
    close_lane(lane.type, lane.letter)
  end
  return lanes
end

-- The priority of a lane's jobs; nil for suspects.
local function priority_of(lane)
  local code = string.byte(lane.letter)
  if lane.letter == 's' then
    return nil
  end
  return code >= 97 and code - 97 or code - 65
end

-- Peeks at these lanes: whether more is due, when the next job falls due, whether a suspect is due.
local function look_ahead(lanes)
  local more_due, suspect_due, next_due = false, false, nil
  for _, lane in ipairs(lanes) do
    local first_later = lane.head
    if lane.head <= NOW then
      if lane.letter == 's' then
        suspect_due = true
      else
        more_due = true
      end
      first_later = first_due(lane.key, '(' .. NOW_DIGITS)
    end
    if first_later and (not next_due or first_later < next_due) then
      next_due = first_later
    end
  end
  return {more_due and '1' or '', next_due and digits(next_due) or '', suspect_due and '1' or ''}
end

-- A queue as claims name it: its name, whether it is paused now, and the requested types. From the arguments:
-- name, end of its pause ('' if there is none, 'open' if the pause has no end), number of types, types.
local function queue_arg()
  local queue = {name = arg(), types = {}}
  local pause = arg()
  queue.paused = pause == 'open' or (pause ~= '' and tonumber(pause) > NOW)
  for i = 1, number_arg() do
    queue.types[i] = number_arg()
  end
  return queue
end

-- All queues that follow in the arguments, after their number. Reads the masks of the open ones at once.
local function queue_args()
  local queues, types = {}, {}
  for i = 1, number_arg() do
    queues[i] = queue_arg()
    for _, type in ipairs(queues[i].paused and {} or queues[i].types) do
      types[#types + 1] = type
    end
  end
  read_masks(types)
  return queues
end

-- Removes a job from a set of waiting jobs, because it does not wait or cannot be read.
local function remove_waiting(place, id, type)
  write('ZREM', place, id)
  bury_damaged(id, type)
end
