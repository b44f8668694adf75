-- release_leases: gives leases back, each only under the last term that held it, and notifies the processes
-- that wait for them.
-- keys those of its parts
-- ARGV number of leases, for each: duty, term, metadata or '' to keep the stored metadata
-- answers for each 'freed', 'free' if it was given back before, or 'lost'
local answers = {}
for i = 1, number_arg() do
  local duty, term, metadata = arg(), arg(), arg()
  local lease = find_lease(duty)
  if not lease or lease.term ~= term then
    answers[i] = 'lost'
  elseif lease.holder == '-' then
    answers[i] = 'free'
  else
    lease.holder, lease.asked = '-', '0'
    lease.metadata = metadata ~= '' and metadata or lease.metadata
    save_lease(duty, lease)
    notify_lease(duty)
    answers[i] = 'freed'
  end
end
return answer(answers)
