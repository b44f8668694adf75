-- take_leases: leases that nobody holds or whose heartbeat is older than their expiry, as core's `LeaseRecord::take` decides.
-- Guarded by `leases::leases_go_as_core_decides`.
-- ARGV worker, term, of how many duties leases may be kept, number of duties, for each: duty, expiry in microseconds
-- answers for each three: 'taken', its fence and ''; 'held', by whom, and in how many microseconds it could have expired;
--         or 'over' if this request was granted before and its term is over. Or only 'full' if there would be too many
local worker, term, most = arg(), arg(), number_arg()

local wanted, new = {}, 0
for i = 1, number_arg() do
  local duty, expiry = arg(), number_arg()
  wanted[i] = {duty = duty, expiry = expiry, lease = find_lease(duty)}
  new = new + (wanted[i].lease and 0 or 1)
end
if new > 0 and redis.call('HLEN', key('leases')) + new > most then
  return answer({'full'})
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
    -- A repeat. A term that is over does not begin again.
    if not is_lease_held(lease) then
      return 'over', '', ''
    end
    beat(duty, lease)
    return 'taken', digits(lease.fence), ''
  end
  if lease and is_lease_held(lease) then
    -- The clock stepped back: a holder that died is missed one expiry from now.
    if lease.heartbeat > NOW then
      beat(duty, lease)
    end
    return 'held', lease.holder, digits(lease_expires_in(lease))
  end
  return 'taken', digits(begin(duty, expiry, lease).fence), ''
end

local answers = {}
for _, want in ipairs(wanted) do
  for _, value in ipairs({take(want.duty, want.expiry, want.lease)}) do
    answers[#answers + 1] = value
  end
end
return answer(answers)
