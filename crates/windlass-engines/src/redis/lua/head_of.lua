-- head_of: the job of a series that is out.
-- ARGV the gate of the series
-- answers its id, or ''
return answer(redis.call('HGET', key('series'), arg()) or '')
