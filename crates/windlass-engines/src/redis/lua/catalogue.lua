-- catalogue: reads queues and types, with the version of it all: everything at once if it is not too much, else a page of one
-- part. A kind is a type's number, its value ends with the queue; a type's value is its number and its spec.
-- keys kinds, pauses, queues, shut, types
-- ARGV '' for everything, or a part: queues, kinds, types, pauses or shut; where to go on, 0 to begin
-- answers {version, queues, kinds, types, pauses, shut}, only {version} if that would be too much, or for a part {version, where
--         to go on (0 at the end), names and values in turn}
local part, cursor = arg(), arg()
local version = LAYOUT[2]
if part ~= '' then
  local page
  if part == 'shut' then
    page = redis.call('SSCAN', key(part), cursor, 'COUNT', BATCH_MAX)
  else
    page = redis.call('HSCAN', key(part), cursor, 'COUNT', BATCH_MAX)
  end
  return answer({version, page[1], page[2]})
end
if redis.call('HLEN', key('queues')) + redis.call('HLEN', key('kinds')) > CATALOGUE_AT_ONCE then
  return answer({version})
end
return answer({
  version,
  redis.call('HGETALL', key('queues')),
  redis.call('HGETALL', key('kinds')),
  redis.call('HGETALL', key('types')),
  redis.call('HGETALL', key('pauses')),
  redis.call('SMEMBERS', key('shut')),
})
