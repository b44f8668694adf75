-- save_breaker: writes what became of a breaker, if nobody wrote since it was read.
-- keys breakers
-- ARGV name, the version that was read (0 for a new one), what is known now as JSON, how many breakers may be
-- answers 'done', 'changed' if somebody wrote meanwhile, or 'full' if it would be one too many
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
