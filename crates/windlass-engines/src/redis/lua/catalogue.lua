-- catalogue: reads all queues and types, with the version of it all.
-- answers {version, queues, kinds, types, pauses, shut}: names and values in turn; a kind is a type's number, its value ends
--         with the queue; a type's value is its number and its spec
return answer({
  redis.call('HGET', key('layout'), 'catalogue'),
  redis.call('HGETALL', key('queues')),
  redis.call('HGETALL', key('kinds')),
  redis.call('HGETALL', key('types')),
  redis.call('HGETALL', key('pauses')),
  redis.call('SMEMBERS', key('shut')),
})
