-- leases: all duty leases.
-- keys leases
-- ARGV the maximum number of leases
-- answers for each lease its duty, fence, term, holder or '-', since when, heartbeat, expiry, takeovers,
--      whether its holder was requested to step down, and metadata, all in one flat list
local limit = number_arg()

local rows = {}
local stored = redis.call('HGETALL', key('leases'))
for i = 1, math.min(#stored, limit * 2), 2 do
  local lease = read_lease(stored[i + 1])
  if lease then
    for _, value in ipairs({stored[i], digits(lease.fence), lease.term, lease.holder, lease.since, digits(lease.heartbeat),
      digits(lease.expiry), digits(lease.takeovers), lease.asked, lease.metadata}) do
      rows[#rows + 1] = value
    end
  end
end
return answer(rows)
