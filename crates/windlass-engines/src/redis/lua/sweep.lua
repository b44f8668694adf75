-- sweep: cancels what has expired, parks what nobody handles and lets through what somebody handles, at most so many of each.
-- keys expiring, gate:
-- ARGV at most so many that have expired, why they are cancelled, at most so many others; how often a worker had come when those
--      were read that serve the types which follow; number of types that nobody handles, for each: number, name; number of
--      types that somebody handles, for each: name
-- answers {how many have expired, how many were parked, '1' if there is more to do}; or {''} if a worker has come meanwhile: then
--         nothing is written
local expired_max, expired_reason, limit, arrivals = number_arg(), arg(), number_arg(), number_arg()
local unhandled, handled = {}, {}
for i = 1, number_arg() do
  unhandled[i] = {type = number_arg(), gate = NO_HANDLER .. arg()}
end
for i = 1, number_arg() do
  handled[i] = NO_HANDLER .. arg()
end

-- What that worker handles must not be parked.
if arrivals ~= ARRIVALS then
  return answer({''})
end

local function expired(most)
  return redis.call('ZRANGEBYSCORE', key('expiring'), '-inf', NOW_DIGITS, 'LIMIT', 0, most)
end

local changed = 0
local expired_ids = expired(expired_max)
for i, job in ipairs(load_all(expired_ids)) do
  if job and waits(job) then
    cancel_waiting(job, expired_reason)
    changed = changed + 1
  else
    write('ZREM', key('expiring'), expired_ids[i])
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
let_through_all(handled, limit)

write_all()
local more = #expired(1) > 0
for _, of in ipairs(unhandled) do
  more = more or #waiting_of(of.type, 1) > 0
end
for _, gate in ipairs(handled) do
  more = more or redis.call('EXISTS', key('gate:') .. gate) == 1
end
return answer({digits(changed), digits(parked), more and '1' or ''})
