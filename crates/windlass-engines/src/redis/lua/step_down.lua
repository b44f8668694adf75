-- step_down: requests the holder of a duty lease to step down.
-- keys those of its parts
-- ARGV duty
-- answers 'done', 'unchanged' if no process holds the lease or its holder was requested before, or '' if
--      there is no such lease
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
notify_lease(duty)
return answer('done')
