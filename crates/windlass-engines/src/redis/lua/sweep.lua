-- sweep: cancels expired jobs, parks jobs whose type no live worker handles and releases jobs whose type a
-- live worker handles.
-- keys expiring, gate:
-- ARGV the maximum number of expired jobs, the reason with which they are cancelled, the maximum number of
--      other jobs; the number of registrations of workers when the handled types were read; number of
--      unhandled types, for each: number, name; number of handled types, for each: name
-- answers {how many expired jobs were cancelled, how many jobs were parked, '1' if there is more to do}; or
--      {''} if a worker has registered meanwhile: then nothing is written
local expired_max, expired_reason, limit, arrivals = number_arg(), arg(), number_arg(), number_arg()
local unhandled, handled = {}, {}
for i = 1, number_arg() do
  unhandled[i] = {type = number_arg(), gate = NO_HANDLER .. arg()}
end
for i = 1, number_arg() do
  handled[i] = NO_HANDLER .. arg()
end

-- The jobs that the new worker handles must not be parked.
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

-- Jobs of a type without a gate, at most `most`: tables of id and lane.
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
      remove_waiting(at.lane, at.id, of.type)
    end
  end
end

-- These jobs were parked while their workers seemed gone, though none of the workers noticed: after a step of
-- the clock and back, no heartbeat finds its lease expired.
release_all_jobs(handled, limit)

write_all()
local more = #expired(1) > 0
for _, of in ipairs(unhandled) do
  more = more or #waiting_of(of.type, 1) > 0
end
for _, gate in ipairs(handled) do
  more = more or redis.call('EXISTS', key('gate:') .. gate) == 1
end
return answer({digits(changed), digits(parked), more and '1' or ''})
