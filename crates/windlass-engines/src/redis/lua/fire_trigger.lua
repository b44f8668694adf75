-- fire_trigger: evaluates a marked completion trigger, and enqueues its job if no job of its group is left.
-- keys trigger_jobs:, trigger_marks, triggers, group:
-- ARGV name; '', or, after a failed evaluation, how long the next one must wait: then the script does nothing
--      else; queues with a limit, as in parts/putting.lua; the version that was read; whether the trigger
--      waits for retries (0 or 1); how long until it may be evaluated again, and the maximum of that time;
--      the record once it has fired; the group that it watches, or '' if it watches types: number of types,
--      types; the job, as in parts/putting.lua
-- answers {'fired', version, the line of its job as enqueue.lua says}, {'held'}, {'unmarked'}, {'later'} or
--      {'changed'}
if IS_OLDER then
  return {'older'}
end
local name, postpone_by = arg(), arg()
read_limits()
local read, waits_too, pause, pause_max, record, group =
  number_arg(), number_arg() == 1, number_arg(), number_arg(), arg(), arg()
local types = {}
for i = 1, number_arg() do
  types[i] = number_arg()
end

local version, last, look_at, stored = read_trigger(redis.call('HGET', key('triggers'), name))
local function pass_over(what)
  enqueue_next(true)
  return answer({what})
end
if postpone_by ~= '' then
  if version > 0 then
    save_trigger(name, version, last, digits(NOW + tonumber(postpone_by)), stored)
  end
  return pass_over('later')
elseif version ~= read then
  return pass_over('changed')
elseif redis.call('SISMEMBER', key('trigger_marks'), name) == 0 then
  return pass_over('unmarked')
end
-- A clock that was set back since may have written an instant further away than any pause. Such an instant is
-- ignored.
local instant = tonumber(look_at)
if instant and instant > NOW and instant <= NOW + pause_max then
  return pass_over('later')
end

-- Whether any job of the group is left. The sorted set of a group contains jobs that could run, or run, by
-- due time; parked jobs come last.
local left
local peers = group_check.peers(name)
if group ~= '' then
  left = group_check.any(key('group:') .. group, waits_too and '+inf' or NOW_DIGITS, peers, true)
else
  left = group_check.types_have_work(types, peers, waits_too)
end

local again = digits(NOW + pause)
if left == nil then
  save_trigger(name, version, last, again, stored)
  return pass_over('later')
end
write('SREM', key('trigger_marks'), name)
if left then
  save_trigger(name, version, last, again, stored)
  return pass_over('held')
end
local line = enqueue_next()
if not line then
  last = string.format('%014d', last_number())
  line = 'n' .. digits(last_number())
  write('SADD', key('trigger_jobs:') .. name, last)
elseif string.sub(line, 1, 1) == 'x' then
  -- The job was refused: core reads the reason from the record.
  record = string.sub(record, 1, -2) .. ',"refusal":' .. string.sub(line, 2) .. '}'
end
local after = math.max(version + 1, NOW)
save_trigger(name, after, last, again, record)
write_enqueued()
return answer({'fired', digits(after), line})
