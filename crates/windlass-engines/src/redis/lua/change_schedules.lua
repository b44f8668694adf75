-- change_schedules: changes schedules, each only if it still has the version that was read, and enqueues
-- their jobs.
-- keys agenda, schedule_names, schedules
-- ARGV queues with a limit, as in parts/putting.lua; the maximum number of schedules; number of changes, for
--      each: name; the version that was read, 0 for none; record, or '' to remove the schedule; when to
--      evaluate it, or '' for never; core's decision for each stage of the last job, four letters for a job
--      that waits, runs, is dead, has ended: p enqueue the jobs, h enqueue them and keep the last job of the
--      schedule, l leave them out, c enqueue the job and cancel the last one, if the last one gives way to
--      it; why the last one is cancelled; the instants of the jobs' ticks, or '' if the jobs belong to no
--      tick; number of jobs, for each: as in parts/putting.lua
-- answers three values for each change: 'done', its version, and one line for each job as enqueue.lua does,
--      or o and the job that it would overlap; 'changed' if another process changed the schedule first; or
--      'full' if there is no room for another schedule
if IS_OLDER then
  return {'older'}
end
read_limits()
local most = number_arg()
local room = most - redis.call('HLEN', key('schedules'))

-- The position of the letter that applies to a last job that waits, runs, is dead, or has ended.
local function place_of(job)
  if job and waits(job) then
    return 1
  end
  return job and (job.stage == 'r' and 2 or job.stage == 'd' and 3) or 4
end

-- Skips the jobs of a change that is not applied.
local function pass_over(jobs)
  for _ = 1, jobs do
    enqueue_next(true)
  end
end

-- Enqueues one job in place of the last one, which waits. The last one is cancelled only if the new job is
-- accepted.
local function enqueue_in_place_of(last, why)
  local line = enqueue_next()
  if line and not frees_enough_room(line, last) then
    return line
  end
  cancel_waiting(last, why)
  make_room(last)
  return line and enqueue_again()
end

-- Enqueues the jobs of a schedule. Returns a line for each, and the last job of the schedule from then on.
local function enqueue_jobs(last, decision_table, why, jobs)
  local job = last ~= '-' and load(last) or nil
  local at = place_of(job)
  local verdict = string.sub(decision_table, at, at)
  local lines = {}
  if verdict == 'l' then
    pass_over(jobs)
    for i = 1, jobs do
      lines[i] = 'o' .. last
    end
    return lines, last
  end
  for i = 1, jobs do
    local line
    if verdict == 'c' then
      line = enqueue_in_place_of(job, why)
    else
      line = enqueue_next()
    end
    if not line then
      last = verdict == 'h' and last or string.format('%014d', last_number())
      line = 'n' .. digits(last_number())
    end
    lines[i] = line
  end
  return lines, last
end

-- The record, with the first tick that made no job: core reads the alert from it.
local function with_alert(record, ticks, lines)
  local i = 0
  for tick in string.gmatch(ticks, '%S+') do
    i = i + 1
    local kind, rest = string.sub(lines[i], 1, 1), string.sub(lines[i], 2)
    local alert = kind == 'x' and '"refusal":' .. rest or kind == 'o' and '"overlaps":' .. digits(tonumber(rest))
    if alert then
      local made_none = ',"made_none":{"at":' .. NOW_DIGITS .. ',"tick":' .. tick .. ',' .. alert .. '}}'
      return string.sub(record, 1, -2) .. made_none
    end
  end
  return record
end

local function remove(name)
  write('HDEL', key('schedules'), name)
  write('ZREM', key('schedule_names'), name)
  write('ZREM', key('agenda'), name)
end

local function save(name, version, last, record, look_at)
  write('HSET', key('schedules'), name, digits(version) .. ' ' .. last .. ' ' .. record)
  write('ZADD', key('schedule_names'), 0, name)
  if look_at == '' then
    write('ZREM', key('agenda'), name)
  else
    write('ZADD', key('agenda'), look_at, name)
  end
end

local answers = {}
local function add_answer(what, version, lines)
  answers[#answers + 1] = what
  answers[#answers + 1] = version
  answers[#answers + 1] = lines
end

for _ = 1, number_arg() do
  local name, read, record, look_at = arg(), number_arg(), arg(), arg()
  local decision_table, why, ticks, jobs = arg(), arg(), arg(), number_arg()
  local text = redis.call('HGET', key('schedules'), name)
  local version, last = read_schedule(text)
  if version ~= read then
    pass_over(jobs)
    add_answer('changed', '', '')
  elseif record == '' then
    pass_over(jobs)
    remove(name)
    add_answer('done', digits(version), '')
  elseif not text and room <= 0 then
    pass_over(jobs)
    add_answer('full', '', '')
  else
    room = room - (text and 0 or 1)
    local lines, job = enqueue_jobs(last, decision_table, why, jobs)
    local after = math.max(version + 1, NOW)
    save(name, after, job, with_alert(record, ticks, lines), look_at)
    add_answer('done', digits(after), table.concat(lines, '\n'))
  end
end
write_enqueued()
return answer(answers)
