-- prune_workers: forget workers that were declared dead long ago and hold nothing. An unknown one is refused
-- just as a dead one is.
-- ?1 leases that ran out at this instant or before   ?2 at most so many
DELETE FROM workers WHERE id IN (
    SELECT w.id FROM workers w
    WHERE w.died IS NOT NULL AND w.expires_at <= ?1
        AND NOT EXISTS (SELECT 1 FROM delayed_jobs j WHERE j.worker = w.id)
    ORDER BY w.died LIMIT ?2);
