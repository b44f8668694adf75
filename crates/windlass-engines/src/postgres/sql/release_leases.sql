-- release_leases: releases leases, each only by the term that was the last to hold it, and notifies the
-- workers that wait for them. Returns for each whether no worker holds it any more, also if it was released
-- before.
-- by position: $1 duties   $2 terms   $3 metadata, null to keep them   $4 channel
-- $5 prefix of a message about a lease
-- plan: sorts: the leases of one request
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[]) WITH ORDINALITY AS a (duty, term, metadata, place)
), locked AS MATERIALIZED (
    SELECT b.job_name, b.term FROM windlass.background_job_leases b
    WHERE b.job_name = ANY ($1::text[]) ORDER BY b.job_name FOR NO KEY UPDATE
), released AS (
    UPDATE windlass.background_job_leases l SET held_by_worker_id = NULL, step_down = false, metadata = coalesce(asked.metadata::json, l.metadata)
    FROM asked, locked
    WHERE l.job_name = locked.job_name AND l.job_name = asked.duty AND l.term = asked.term
        AND l.held_by_worker_id IS NOT NULL
    RETURNING l.job_name
), told AS MATERIALIZED (
    SELECT job_name, pg_notify($4::text, $5::text || job_name) FROM released
)
SELECT coalesce(k.term = asked.term, false), t.job_name IS NOT NULL
FROM asked LEFT JOIN locked k ON k.job_name = asked.duty LEFT JOIN told t ON t.job_name = asked.duty
ORDER BY asked.place;
