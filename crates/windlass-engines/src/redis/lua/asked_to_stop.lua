-- asked_to_stop: a page of the running jobs of a worker that were requested to stop.
-- keys stops:
-- ARGV worker, the cursor to go on from, 0 to begin
-- answers the cursor to go on from (0 at the end), and ids and tokens in turn
local worker, cursor = arg(), arg()
local page = redis.call('SSCAN', key('stops:') .. worker, cursor, 'COUNT', BATCH_MAX)
return answer({page[1], fences_to_stop(worker, page[2])})
