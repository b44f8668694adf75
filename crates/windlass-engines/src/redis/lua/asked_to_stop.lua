-- asked_to_stop: which running jobs of a worker were asked to stop, a page of them.
-- keys stops:
-- ARGV worker, where to go on, 0 to begin
-- answers where to go on (0 at the end), and ids and tokens in turn
local worker, cursor = arg(), arg()
local page = redis.call('SSCAN', key('stops:') .. worker, cursor, 'COUNT', BATCH_MAX)
return answer({page[1], fences_to_stop(worker, page[2])})
