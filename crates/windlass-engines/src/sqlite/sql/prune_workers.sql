-- prune_workers: deletes workers that were declared dead long ago and hold no job. An unknown worker is
-- refused just as a dead one is.
-- ?1 leases that expired at this instant or before   ?2 limit
DELETE FROM workers WHERE id IN (
    SELECT w.id FROM workers w
    WHERE w.died IS NOT NULL AND w.expires_at <= ?1
        AND NOT EXISTS (SELECT 1 FROM delayed_jobs j WHERE j.worker = w.id)
    ORDER BY w.died LIMIT ?2);
