-- advance_series: in some series in which nobody is out the oldest goes out; or (null) in those that were marked longest ago.
-- Answers where claims must look again: queue, priority, due, job, and whether it went out just now or waits since before.
-- by position: $1 types, or null   $2 series   then: $3 at most so many that were marked   $4 the gate of one that ever crashed
SELECT went_to, at_priority, due, job, just_now FROM windlass.advance_series($1::text[], $2::text[], $3::integer, $4::text);
