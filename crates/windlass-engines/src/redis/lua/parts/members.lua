-- members: counts the live workers that could do the same duties, so that no worker has to read a list of
-- all.
-- members:<set>  by the set of their duties (its hash): workers, by their ring position
-- member_sets    the duties of each set
-- heard          set and worker together, by the time until which the worker counts as live
-- keys members:, member_sets, heard

local SET_CHARS = 40
-- The maximum number of silent workers that one run removes.
local SILENT_MAX = 1000

-- Records a worker's heartbeat. A worker that could do no duty is not counted.
local function count_as_live(worker, duties, place, hearing)
  if duties == '' then
    return
  end
  local set = redis.sha1hex(duties)
  write('HSET', key('member_sets'), set, duties)
  write('ZADD', key('members:') .. set, digits(place), worker)
  write('ZADD', key('heard'), digits(NOW + hearing), set .. worker)
end

-- Removes a worker that is gone.
local function forget_member(worker, duties)
  if duties and duties ~= '' then
    local set = redis.sha1hex(duties)
    write('ZREM', key('members:') .. set, worker)
    write('ZREM', key('heard'), set .. worker)
  end
end

-- Removes the workers that fell silent, and returns them by their sets.
local function remove_silent()
  local silent_workers = {}
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('heard'), '-inf', '(' .. NOW_DIGITS, 'LIMIT', 0, SILENT_MAX)) do
    local set, worker = string.sub(member, 1, SET_CHARS), string.sub(member, SET_CHARS + 1)
    silent_workers[set] = silent_workers[set] or {}
    table.insert(silent_workers[set], worker)
    write('ZREM', key('members:') .. set, worker)
    write('ZREM', key('heard'), member)
  end
  return silent_workers
end

-- For each set of duties that other workers have: the duties, the number of these workers, and how many of
-- them have a lower ring position.
local function count_members(me, place)
  local silent_workers, sets, counts = remove_silent(), redis.call('HGETALL', key('member_sets')), {}
  for i = 1, #sets, 2 do
    local set = sets[i]
    local name = key('members:') .. set
    local able, before = redis.call('ZCARD', name), redis.call('ZCOUNT', name, '-inf', '(' .. digits(place))
    for _, worker in ipairs(silent_workers[set] or {}) do
      local at = worker ~= me and tonumber(redis.call('ZSCORE', name, worker) or '')
      able = able - (at and 1 or 0)
      before = before - (at and at < place and 1 or 0)
    end
    able = able - (redis.call('ZSCORE', name, me) and 1 or 0)
    if able > 0 then
      for _, value in ipairs({sets[i + 1], digits(able), digits(before)}) do
        counts[#counts + 1] = value
      end
    elseif not redis.call('ZSCORE', name, me) then
      write('HDEL', key('member_sets'), set)
    end
  end
  return counts
end
