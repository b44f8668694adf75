-- prune_workers: deletes workers that were declared dead long ago and hold no job. An unknown worker is
-- refused just as a dead one is.
-- $1 now, or null for the server's clock   $2 retention in microseconds   $3 limit
DELETE FROM windlass.workers WHERE id = ANY (ARRAY (
    SELECT w.id FROM windlass.workers w
    WHERE w.died IS NOT NULL
        AND w.expires_at <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
        AND NOT EXISTS (SELECT 1 FROM windlass.running r WHERE r.worker = w.id)
    ORDER BY w.died LIMIT $3::integer
)) RETURNING 1;
