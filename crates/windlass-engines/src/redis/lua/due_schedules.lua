-- due_schedules: a page of schedules that are due to be evaluated, longest due first, after the end of
-- another page.
-- keys agenda
-- ARGV the maximum number of schedules; when the last schedule of the page before was due, or '' for the
--      first page; the name of that schedule
-- answers as schedules_named.lua
local limit, from, after = number_arg(), arg(), arg()

-- Whether a name follows another byte by byte, as the agenda sorts them. How Lua compares texts depends on
-- the server's locale.
local function follows(name, other)
  for i = 1, math.min(#name, #other) do
    local a, b = string.byte(name, i), string.byte(other, i)
    if a ~= b then
      return a > b
    end
  end
  return #name > #other
end

-- Schedules that are due in the same microsecond may fill more than a page, so the loop reads page after
-- page.
local names, offset, look_at = {}, 0, ''
local start = from == '' and '-inf' or from
repeat
  local page = redis.call('ZRANGEBYSCORE', key('agenda'), start, NOW_DIGITS, 'WITHSCORES', 'LIMIT', offset, limit)
  for i = 1, #page, 2 do
    local is_same_time = from ~= '' and tonumber(page[i + 1]) == tonumber(from)
    if #names < limit and (not is_same_time or follows(page[i], after)) then
      names[#names + 1], look_at = page[i], digits(tonumber(page[i + 1]))
    end
  end
  offset = offset + limit
until #names == limit or #page < 2 * limit
return answer_schedules(names, look_at)
