-- leases_hold: which of these terms still hold their leases.
-- keys those of its parts
-- ARGV number of leases, for each: duty, fence, term
-- answers for each '1' or ''
local answers = {}
for i = 1, number_arg() do
  local duty, fence, term = arg(), arg(), arg()
  answers[i] = lease_holds(duty, fence, term) and '1' or ''
end
return answer(answers)
