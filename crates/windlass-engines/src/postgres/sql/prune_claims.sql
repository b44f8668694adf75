-- prune_claims: deletes claims that hold no job and that no worker will query any more.
-- $1 now, or null for the server's clock   $2 retention in microseconds   $3 limit
DELETE FROM windlass.claims WHERE token = ANY (ARRAY (
    SELECT c.token FROM windlass.claims c
    WHERE c.at <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
        AND NOT EXISTS (
            SELECT 1 FROM windlass.delayed_jobs j WHERE j.id = ANY (c.jobs) AND j.token = c.token OFFSET 0
        )
    LIMIT $3::integer
)) RETURNING 1;
