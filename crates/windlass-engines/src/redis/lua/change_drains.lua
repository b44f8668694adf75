-- change_drains: what drains become, each only if it still has the version that was read.
-- keys drain_jobs:, drain_marks, drain_watches, drains, layout
-- ARGV how many are kept at the most; number of changes, for each: name; the version that was read, 0 for none; record, or '' to remove
--      it; what it watches, as in parts/waiting.lua
-- answers for each 'done' and its version, 'changed' if somebody was faster, or 'full' if there is no room for another
local most = number_arg()
local there = redis.call('HLEN', key('drains'))
local answers = {}
local function say(what, version)
  answers[#answers + 1] = what
  answers[#answers + 1] = version
end

for _ = 1, number_arg() do
  local name, read, record, watch = arg(), number_arg(), arg(), arg()
  local text = redis.call('HGET', key('drains'), name)
  local version, job, look_at = read_drain(text)
  if version ~= read then
    say('changed', '')
  elseif record == '' then
    there = there - (text and 1 or 0)
    write('HDEL', key('drains'), name)
    write('HDEL', key('drain_watches'), name)
    write('SREM', key('drain_marks'), name)
    write('UNLINK', key('drain_jobs:') .. name)
    say('done', digits(version))
  elseif not text and there >= most then
    say('full', '')
  else
    there = there + (text and 0 or 1)
    local after = math.max(version + 1, NOW)
    save_drain(name, after, job, look_at, record)
    -- What comes after the first letter: whether it waits for retries changes nothing of what was marked.
    local watched = redis.call('HGET', key('drain_watches'), name) or ''
    write('HSET', key('drain_watches'), name, watch)
    if not text or string.sub(watched, 2) ~= string.sub(watch, 2) then
      write('SREM', key('drain_marks'), name)
    end
    say('done', digits(after))
  end
end
write('HSET', key('layout'), 'drains', there > 0 and '1' or '')
return answer(answers)
