-- release_leases: gives leases back, each only by the term that was the last to hold it, and tells whoever waits for them.
-- ARGV number of leases, for each: duty, fence, term
-- answers for each 'freed', 'free' if it was given back before, or 'lost'
local answers = {}
for i = 1, number_arg() do
  local duty, fence, term = arg(), arg(), arg()
  local lease = lease_of_term(duty, fence, term)
  if not lease then
    answers[i] = 'lost'
  elseif lease.holder == '-' then
    answers[i] = 'free'
  else
    lease.holder, lease.asked = '-', '0'
    save_lease(duty, lease)
    tell_lease(duty)
    answers[i] = 'freed'
  end
end
return answer(answers)
