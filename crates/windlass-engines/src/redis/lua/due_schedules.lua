-- due_schedules: schedules that somebody has to look at, longest due first, after the end of another page.
-- keys agenda
-- ARGV at most so many; when the last one of that page was to be looked at, or '' for the first page; its name
-- answers as schedules_named.lua
local limit, from, after = number_arg(), arg(), arg()

-- Whether a name follows another byte by byte, as they stand in the agenda. What Lua says of texts depends on the server's language.
local function follows(name, other)
  for i = 1, math.min(#name, #other) do
    local a, b = string.byte(name, i), string.byte(other, i)
    if a ~= b then
      return a > b
    end
  end
  return #name > #other
end

-- Those that are to be looked at in the same microsecond may fill more than a page, so that page after page is read.
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
