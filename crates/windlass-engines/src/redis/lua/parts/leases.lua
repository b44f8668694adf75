-- leases: who does which duty for all, in the hash `leases`: by duty, its fence, term, holder or '-', since when, heartbeat,
-- expiry, takeovers, whether its holder was asked to give way, and what holders keep with it, with a space between. A field
-- stays when nobody holds the lease, so that no fence is given twice.
-- keys leases, stops

-- What cannot be read counts as never written: the next fence is no lower than the time, and so higher than the last one.
local function read_lease(text)
  local fence, term, holder, since, heartbeat, expiry, takeovers, asked, metadata = string.match(text or '',
    '^(%d+) (%x+) (%S+) (%-?%d+) (%-?%d+) (%d+) (%d+) ([01]) (.*)$')
  if not fence then
    return nil
  end
  return {fence = tonumber(fence), term = term, holder = holder, since = since, heartbeat = tonumber(heartbeat),
    expiry = tonumber(expiry), takeovers = tonumber(takeovers), asked = asked, metadata = metadata}
end

-- Leases as this script has read or changed them; false for one that is not there.
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

-- The lease of a duty, if its last term is this one; the fence comes as text.
local function lease_of_term(duty, fence, term)
  local lease = find_lease(duty)
  return lease and digits(lease.fence) == fence and lease.term == term and lease or nil
end

-- Whether this very term holds. Any script that writes under a lease asks this first.
local function lease_holds(duty, fence, term)
  local lease = lease_of_term(duty, fence, term)
  return lease ~= nil and is_lease_held(lease)
end

-- Tells everybody that a lease is free, or that its holder was asked to give way.
local function tell_lease(duty)
  write('PUBLISH', key('stops'), 'lease:' .. duty)
end
