-- step_down: asks the holder of a lease to give way.
-- keys those of its parts
-- ARGV duty
-- answers 'done', 'unchanged' if nobody holds it or was asked before, or '' if there is no such lease
local duty = arg()
local lease = find_lease(duty)
if not lease then
  return answer('')
end
if not is_lease_held(lease) or lease.asked == '1' then
  return answer('unchanged')
end
lease.asked = '1'
save_lease(duty, lease)
tell_lease(duty)
return answer('done')
