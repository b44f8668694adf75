-- catalogue: reads queues and types, with the version of the catalogue: all at once if they are few enough,
-- else a page of one part. The field of a kind is the number of a type, and its value ends with the queue.
-- The value of a type is its number and its spec.
-- keys kinds, pauses, queues, shut, types
-- ARGV '' for everything, or a part: queues, kinds, types, pauses or shut; the cursor to go on from, 0 to
--      begin
-- answers {version, queues, kinds, types, pauses, shut}, only {version} if there are too many, or for a part
--      {version, the cursor to go on from (0 at the end), names and values in turn}
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
