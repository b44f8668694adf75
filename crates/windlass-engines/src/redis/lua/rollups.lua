-- rollups: a page of rollups, by minute, queue and type. A page may end early, or be empty, although there
-- are more rows: the numbers of minutes and of rows that one run reads are limited.
-- keys rollups, rollups:
-- ARGV from this minute, in it only behind this queue and type with a space between, up to this minute, queue
--      or '', type or '', the maximum number of rows
-- answers {for each row: minute, queue and type with a space between, the stored rollup; and three more
--      values if there may be more rows: the minute and the queue and type behind which to go on, and ''}
local first, after, last, queue, type, limit = number_arg(), arg(), number_arg(), arg(), arg(), number_arg()
local MINUTES_AT_ONCE, ROWS_AT_ONCE = 1500, 20000

local rows_read = 0
local function fields_of(minute)
  if queue ~= '' and type ~= '' then
    return {queue .. ' ' .. type}
  end
  local fields, all = {}, redis.call('HKEYS', key('rollups:') .. minute)
  rows_read = rows_read + #all
  for _, field in ipairs(all) do
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
local minutes_read, behind = redis.call('ZRANGEBYSCORE', key('rollups'), digits(first), digits(last), 'LIMIT', 0, MINUTES_AT_ONCE), nil
for _, minute in ipairs(minutes_read) do
  for _, field in ipairs(fields_of(minute)) do
    local is_behind = tonumber(minute) ~= first or field > after
    local kept = is_behind and redis.call('HGET', key('rollups:') .. minute, field)
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
  behind = minute
  if rows_read >= ROWS_AT_ONCE then
    break
  end
end
if is_full then
  add(rows[#rows - 2], rows[#rows - 1], '')
elseif behind and (#minutes_read == MINUTES_AT_ONCE or rows_read >= ROWS_AT_ONCE) then
  -- Before the next minute, and not behind a name that comes last: the order of names depends on the server's
  -- locale.
  add(digits(tonumber(behind) + 1), '', '')
end
return answer(rows)
