-- take_leases: takes leases that have no holder or whose heartbeat is older than their expiry, as core's
-- `StoredLease::take` decides. Guarded by `leases::leases_go_as_core_decides`.
-- keys leases
-- ARGV worker, term, the maximum number of leases, after how many microseconds without a heartbeat a lease
--      may be forgotten, number of duties, for each: duty, expiry in microseconds
-- answers three values for each: 'taken', its fence and metadata; 'held', its holder, and in how many
--      microseconds the lease could expire; 'over' if this request was granted before and its term is over;
--      or 'full' if there is no room for the lease
local worker, term, most, kept = arg(), arg(), number_arg(), number_arg()

local wanted, is_wanted, new = {}, {}, 0
for i = 1, number_arg() do
  local duty, expiry = arg(), number_arg()
  wanted[i] = {duty = duty, expiry = expiry, lease = find_lease(duty)}
  is_wanted[duty] = true
  new = new + (wanted[i].lease and 0 or 1)
end

-- If not all new leases fit in, leases that no process needs are deleted: so old a heartbeat is older than
-- every expiry. There are never more leases than the maximum.
local room = new > 0 and most - redis.call('HLEN', key('leases')) or 0
if new > room then
  local stored = redis.call('HGETALL', key('leases'))
  for i = 1, #stored, 2 do
    local lease = read_lease(stored[i + 1])
    if not is_wanted[stored[i]] and (not lease or NOW - lease.heartbeat >= kept) then
      room = room + redis.call('HDEL', key('leases'), stored[i])
    end
  end
end

local function begin(duty, expiry, before)
  local lease = before or {fence = 0, holder = '-', takeovers = 0, metadata = '{}'}
  if lease.holder ~= '-' then
    lease.takeovers = lease.takeovers + 1
  end
  lease.fence, lease.term, lease.holder = math.max(lease.fence + 1, NOW), term, worker
  lease.since, lease.heartbeat, lease.expiry, lease.asked = NOW_DIGITS, NOW, expiry, '0'
  save_lease(duty, lease)
  return lease
end

local function beat(duty, lease)
  lease.heartbeat = NOW
  save_lease(duty, lease)
end

local function take(duty, expiry, lease)
  if lease and lease.term == term then
    -- A repeated request. A term that is over does not begin again.
    if not is_lease_held(lease) then
      return 'over', '', ''
    end
    beat(duty, lease)
    return 'taken', digits(lease.fence), lease.metadata
  end
  if lease and is_lease_held(lease) then
    -- The clock stepped back: the lease of a holder that died now expires one expiry from now.
    if lease.heartbeat > NOW then
      beat(duty, lease)
    end
    return 'held', lease.holder, digits(lease_expires_in(lease))
  end
  if not lease and room <= 0 then
    return 'full', '', ''
  end
  room = room - (lease and 0 or 1)
  local begun = begin(duty, expiry, lease)
  return 'taken', digits(begun.fence), begun.metadata
end

local answers = {}
for _, want in ipairs(wanted) do
  for _, value in ipairs({take(want.duty, want.expiry, want.lease)}) do
    answers[#answers + 1] = value
  end
end
return answer(answers)
