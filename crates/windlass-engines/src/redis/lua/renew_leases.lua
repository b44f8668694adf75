-- renew_leases: heartbeats of leases, each only if exactly its term still holds.
-- keys those of its parts
-- ARGV number of leases, for each: duty, fence, term, metadata or '' to keep the stored metadata
-- answers for each 'kept', 'give way' if its holder was requested to step down, or 'lost'
local answers = {}
for i = 1, number_arg() do
  local duty, fence, term, metadata = arg(), arg(), arg(), arg()
  local lease = lease_of_term(duty, fence, term)
  if lease and is_lease_held(lease) then
    lease.heartbeat = NOW
    lease.metadata = metadata ~= '' and metadata or lease.metadata
    save_lease(duty, lease)
    answers[i] = lease.asked == '1' and 'give way' or 'kept'
  else
    answers[i] = 'lost'
  end
end
return answer(answers)
