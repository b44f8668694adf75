-- claim_fairness_keys: claims as `claim` does, for a queue in which jobs have fairness keys. This file
-- holds only the part that picks jobs. sql.rs inserts it into claim.sql when an engine is opened. Each
-- range is one of three: the jobs of one fairness key, by the index of fairness keys; all jobs of a
-- priority, by the index of claims; or only those of them without any fairness key. The ranges do not
-- overlap.
-- $1 to $14 as in claim; for each range: $15 fairness key, or null   $16 limit
-- $17 only jobs without any fairness key
picked AS MATERIALIZED (
    SELECT job.id, job.place, job.late
    FROM guard
    CROSS JOIN unnest(
        $10::smallint[], $11::timestamptz[], $12::bigint[], $13::timestamptz[], $15::text[], $16::integer[], $17::boolean[]
    ) AS span (priority, after_due, after_id, until, fairness_key, most, is_nameless)
    CROSS JOIN LATERAL (
        SELECT of_line.* FROM (
            SELECT j.id, j.ctid AS place, j.attempts = 0 AND j.expires_at <= guard.at IS TRUE AS late
            FROM windlass.delayed_jobs j
            WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $5::text AND j.priority = span.priority
                AND j.fairness_key = span.fairness_key AND j.fairness_key IS NOT NULL
                AND (j.scheduled_at, j.id) > (span.after_due, span.after_id)
                AND j.scheduled_at <= least(span.until, guard.at)
                AND ($6::text[] IS NULL OR j.job_type = ANY ($6::text[]))
                AND (NOT $14::boolean OR j.xmax IN ('0'::xid, j.xmin))
            ORDER BY j.scheduled_at, j.id
            LIMIT span.most
            FOR UPDATE SKIP LOCKED
        ) AS of_line
        UNION ALL
        SELECT of_all.* FROM (
            SELECT j.id, j.ctid AS place, j.attempts = 0 AND j.expires_at <= guard.at IS TRUE AS late
            FROM windlass.delayed_jobs j
            WHERE span.fairness_key IS NULL AND (NOT span.is_nameless OR j.fairness_key IS NULL)
                AND j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $5::text AND j.priority = span.priority
                AND (j.scheduled_at, j.id) > (span.after_due, span.after_id)
                AND j.scheduled_at <= least(span.until, guard.at)
                AND ($6::text[] IS NULL OR j.job_type = ANY ($6::text[]))
                AND (NOT $14::boolean OR j.xmax IN ('0'::xid, j.xmin))
            ORDER BY j.scheduled_at, j.id
            LIMIT span.most
            FOR UPDATE SKIP LOCKED
        ) AS of_all
    ) AS job
    WHERE guard.alive AND guard.version = $4::bigint
        AND NOT EXISTS (SELECT 1 FROM windlass.claims WHERE token = $3::uuid AND claim_tombstones)
    LIMIT $7::integer
)
