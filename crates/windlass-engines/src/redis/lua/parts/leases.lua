-- leases: duty leases, in the hash `leases`: by duty, its fence, term, holder or '-', since when, heartbeat,
-- expiry, takeovers, whether its holder was requested to step down, and the metadata of its holders, with a
-- space between. A field stays when no process holds the lease, so that no fence is assigned twice.
-- keys leases, stops

-- An unreadable lease counts as never written: the next fence is no lower than the time, and so higher than
-- the last one.
local function read_lease(text)
  local fence, term, holder, since, heartbeat, expiry, takeovers, asked, metadata = string.match(text or '',
    '^(%d+) (%x+) (%S+) (%-?%d+) (%-?%d+) (%d+) (%d+) ([01]) (.*)$')
  if not fence then
    return nil
  end
  return {fence = tonumber(fence), term = term, holder = holder, since = since, heartbeat = tonumber(heartbeat),
    expiry = tonumber(expiry), takeovers = tonumber(takeovers), asked = asked, metadata = metadata}
end

-- Leases as this script has read or changed them; false for a lease that does not exist.
local leases_known = {}

local function find_lease(duty)
  if leases_known[duty] == nil then
    leases_known[duty] = read_lease(redis.call('HGET', key('leases'), duty)) or false
  end
  return leases_known[duty] or nil
end

local function save_lease(duty, lease)
  leases_known[duty] = lease
  write('HSET', key('leases'), duty, table.concat({digits(lease.fence), lease.term, lease.holder, lease.since,
    digits(lease.heartbeat), digits(lease.expiry), digits(lease.takeovers), lease.asked, lease.metadata}, ' '))
end

-- In how many microseconds the heartbeat will be older than the expiry.
local function lease_expires_in(lease)
  return lease.expiry - math.max(0, NOW - lease.heartbeat)
end

local function is_lease_held(lease)
  return lease.holder ~= '-' and lease_expires_in(lease) > 0
end

-- The lease of a duty, if its last term is this one; the fence is passed as text.
local function lease_of_term(duty, fence, term)
  local lease = find_lease(duty)
  return lease and digits(lease.fence) == fence and lease.term == term and lease or nil
end

-- Whether exactly this term holds the lease. Any script that writes under a lease checks this first.
local function lease_holds(duty, fence, term)
  local lease = lease_of_term(duty, fence, term)
  return lease ~= nil and is_lease_held(lease)
end

-- Notifies all engines that a lease is free, or that its holder was requested to step down.
local function notify_lease(duty)
  write('PUBLISH', key('stops'), 'lease:' .. duty)
end
