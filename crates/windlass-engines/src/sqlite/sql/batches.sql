-- batches: jobs that leave together, oldest first.
-- ?1 at most so many
SELECT request, since, ids FROM spill_batches ORDER BY since, request LIMIT ?1;
