-- leases: all leases.
-- keys leases
-- ARGV at most so many
-- answers for each its duty, fence, term, holder or '-', since when, heartbeat, expiry, takeovers, whether its holder was asked
--         to give way, and metadata, one behind the other
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
