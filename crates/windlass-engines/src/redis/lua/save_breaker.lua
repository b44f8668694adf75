-- save_breaker: writes the state of a breaker, if no process wrote it since it was read.
-- keys breakers
-- ARGV name, the version that was read (0 for a new breaker), its state as JSON, the maximum number of
--      breakers
-- answers 'done', 'changed' if another process wrote it meanwhile, or 'full' if there is no room for another
--      breaker
local name, read, state, most = arg(), number_arg(), arg(), number_arg()

local stored = redis.call('HGET', key('breakers'), name)
local version = read_breaker(stored)
if version ~= read then
  return answer('changed')
end
if not stored and redis.call('HLEN', key('breakers')) >= most then
  return answer('full')
end
write('HSET', key('breakers'), name, digits(version + 1) .. ' ' .. state)
return answer('done')
