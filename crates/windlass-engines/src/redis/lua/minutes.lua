-- minutes: a page of minutes, by minute, queue and type. It may end early, or be empty, and there is yet more: so many minutes are looked at.
-- keys minutes, minutes:
-- ARGV from this minute, in it only behind this queue and type with a space between, up to this minute, queue or '', type or '',
--      at most so many rows
-- answers {for each row: minute, queue and type with a space between, what is kept; and three more if there may be more: the minute
--         and the queue and type behind which to go on, and ''}
local first, after, last, queue, type, limit = number_arg(), arg(), number_arg(), arg(), arg(), number_arg()
local MINUTES_AT_ONCE = 1500

local function fields_of(minute)
  if queue ~= '' and type ~= '' then
    return {queue .. ' ' .. type}
  end
  local fields = {}
  for _, field in ipairs(redis.call('HKEYS', key('minutes:') .. minute)) do
    local of_queue, of_type = string.match(field, '^(%S*) (.*)$')
    if (queue == '' or queue == of_queue) and (type == '' or type == of_type) then
      fields[#fields + 1] = field
    end
  end
  table.sort(fields)
  return fields
end

local rows, count, is_full = {}, 0, false
local function add(minute, field, kept)
  for _, value in ipairs({minute, field, kept}) do
    rows[#rows + 1] = value
  end
end
local looked = redis.call('ZRANGEBYSCORE', key('minutes'), digits(first), digits(last), 'LIMIT', 0, MINUTES_AT_ONCE)
for _, minute in ipairs(looked) do
  for _, field in ipairs(fields_of(minute)) do
    local is_behind = tonumber(minute) ~= first or field > after
    local kept = is_behind and redis.call('HGET', key('minutes:') .. minute, field)
    if kept and count == limit then
      is_full = true
      break
    elseif kept then
      add(minute, field, kept)
      count = count + 1
    end
  end
  if is_full then
    break
  end
end
if is_full then
  add(rows[#rows - 2], rows[#rows - 1], '')
elseif #looked == MINUTES_AT_ONCE then
  -- Behind all that a minute can have.
  add(looked[#looked], '~ ', '')
end
return answer(rows)
