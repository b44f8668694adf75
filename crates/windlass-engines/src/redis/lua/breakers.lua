-- breakers: all breakers that processes share.
-- keys breakers
-- ARGV at most so many
-- answers for each its name, its version and what is known of it, one behind the other
local limit = number_arg()

local rows = {}
local stored = redis.call('HGETALL', key('breakers'))
for i = 1, math.min(#stored, limit * 2), 2 do
  local version, state = read_breaker(stored[i + 1])
  for _, value in ipairs({stored[i], digits(version), state}) do
    rows[#rows + 1] = value
  end
end
return answer(rows)
