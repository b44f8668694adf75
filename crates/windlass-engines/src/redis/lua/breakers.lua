-- breakers: all breakers that processes share.
-- keys breakers
-- ARGV the maximum number of breakers
-- answers for each breaker its name, its version and its state, all in one flat list
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
