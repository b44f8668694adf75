-- schedules: schedules as they are stored, in the hash `schedules`: by name, a version, a space, the last job
-- (14 digits, or -), a space, and core's text as JSON. All names are in the sorted set `schedule_names`, with
-- one score, so that they are listed in order; names of schedules that have to be evaluated are in `agenda`,
-- by when.
-- keys agenda, schedules

-- Version, last job and record of a schedule. An unreadable schedule counts as never written, and is
-- overwritten.
local function read_schedule(text)
  local version, job, record = string.match(text or '', '^(%d+) (%S+) (.*)$')
  if not version or #version > 16 then
    return 0, '-', ''
  end
  return tonumber(version), job, record
end

-- When the next schedule that is not due yet has to be evaluated; '' for never.
local function next_evaluation()
  local first = redis.call('ZRANGEBYSCORE', key('agenda'), '(' .. NOW_DIGITS, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and digits(tonumber(first[2])) or ''
end

-- The answer about schedules of these names: when to evaluate next, where this page ends, and for each
-- schedule that exists its name, version, last job, record.
local function answer_schedules(names, look_at)
  local rows = {next_evaluation(), look_at, names[#names] or ''}
  for i, text in ipairs(get_many(key('schedules'), names)) do
    if text then
      local version, job, record = read_schedule(text)
      for _, value in ipairs({names[i], digits(version), job, record}) do
        rows[#rows + 1] = value
      end
    end
  end
  return answer(rows)
end
