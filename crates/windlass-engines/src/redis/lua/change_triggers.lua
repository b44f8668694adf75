-- change_triggers: changes completion triggers, each only if it still has the version that was read.
-- keys trigger_jobs:, trigger_marks, trigger_watches, triggers, layout
-- ARGV the maximum number of triggers; number of changes, for each: name; the version that was read, 0 for
--      none; record, or '' to remove the trigger; what it watches, as in parts/waiting.lua
-- answers for each 'done' and its version, 'changed' if another process changed the trigger first, or 'full'
--      if there is no room for another trigger
local most = number_arg()
local stored_count = redis.call('HLEN', key('triggers'))
local answers = {}
local function add_answer(what, version)
  answers[#answers + 1] = what
  answers[#answers + 1] = version
end

for _ = 1, number_arg() do
  local name, read, record, watch = arg(), number_arg(), arg(), arg()
  local text = redis.call('HGET', key('triggers'), name)
  local version, job, look_at = read_trigger(text)
  if version ~= read then
    add_answer('changed', '')
  elseif record == '' then
    stored_count = stored_count - (text and 1 or 0)
    write('HDEL', key('triggers'), name)
    write('HDEL', key('trigger_watches'), name)
    write('SREM', key('trigger_marks'), name)
    write('UNLINK', key('trigger_jobs:') .. name)
    add_answer('done', digits(version))
  elseif not text and stored_count >= most then
    add_answer('full', '')
  else
    stored_count = stored_count + (text and 0 or 1)
    local after = math.max(version + 1, NOW)
    save_trigger(name, after, job, look_at, record)
    -- The group, which follows the first letter. Whether the trigger waits for retries does not affect
    -- existing marks.
    local watched = redis.call('HGET', key('trigger_watches'), name) or ''
    write('HSET', key('trigger_watches'), name, watch)
    if not text or string.sub(watched, 2) ~= string.sub(watch, 2) then
      write('SREM', key('trigger_marks'), name)
    end
    add_answer('done', digits(after))
  end
end
write('HSET', key('layout'), 'triggers', stored_count > 0 and '1' or '')
return answer(answers)
