-- sweep: cancels what has expired and parks what nobody handles, at most so many of each.
-- ARGV at most so many, why what has expired is cancelled; number of types, for each: number, name, queue
-- answers how many jobs were changed, and '1' if there is more to do
local limit, expired_reason = number_arg(), arg()
local types = {}
for i = 1, number_arg() do
  types[i] = {number = number_arg(), name = arg(), queue = arg()}
end

local function expired(most)
  return redis.call('ZRANGEBYSCORE', key('expiring'), '-inf', NOW_DIGITS, 'LIMIT', 0, most)
end

local changed = 0
local expired_ids = expired(limit)
for i, job in ipairs(load_all(expired_ids)) do
  if job and waits(job) then
    cancel_waiting(job, expired_reason)
    changed = changed + 1
  else
    write('ZREM', key('expiring'), expired_ids[i])
  end
end

-- Which queues live workers serve, and which types they handle.
local served, handled = {}, {}
for _, worker in ipairs(redis.call('SMEMBERS', key('workers'))) do
  local row = redis.call('HMGET', key('worker:') .. worker, 'expires', 'queues', 'types')
  if (tonumber(row[1]) or 0) > NOW then
    for queue in string.gmatch(row[2] or '', '[^\n]+') do
      served[queue] = true
    end
    for type in string.gmatch(row[3] or '', '[^\n]+') do
      handled[type] = true
    end
  end
end

-- Jobs of a type without a gate, at most so many: tables of id and lane.
local function waiting_of(type, most)
  local waiting = {}
  for _, lane in ipairs(close_empty_lanes({type})) do
    if lane.letter ~= 's' and #waiting < most then
      for _, id in ipairs(redis.call('ZRANGE', lane.key, 0, most - #waiting - 1)) do
        waiting[#waiting + 1] = {id = id, lane = lane.key}
      end
    end
  end
  return waiting
end

-- Without any worker of a queue nothing is known: a producer that starts first must not see its jobs parked.
local unhandled = {}
for _, of in ipairs(types) do
  if served[of.queue] and not handled[of.name] then
    unhandled[#unhandled + 1] = {type = of.number, gate = NO_HANDLER .. of.name}
  end
end

local parked = 0
for _, of in ipairs(unhandled) do
  for _, at in ipairs(parked < limit and waiting_of(of.type, limit - parked) or {}) do
    local job = load(at.id)
    if job and (job.stage == 'w' or job.stage == 'f') then
      leave_waiting(job)
      enter_waiting(job, of.gate)
      parked = parked + 1
    else
      take_away(at.lane, at.id, of.type)
    end
  end
end

-- What was parked while its workers seemed gone, though none of them ever noticed: after a step of the clock and back, no
-- heartbeat finds its lease run out.
for type in pairs(handled) do
  let_through(NO_HANDLER .. type, limit)
end

write_all()
local more = #expired(1) > 0
for _, of in ipairs(unhandled) do
  more = more or #waiting_of(of.type, 1) > 0
end
return answer({digits(changed + parked), more and '1' or ''})
