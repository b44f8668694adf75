-- asked_to_stop: which running jobs of a worker were asked to stop.
-- ARGV worker
-- answers ids and tokens in turn
return answer(fences_to_stop(arg()))
