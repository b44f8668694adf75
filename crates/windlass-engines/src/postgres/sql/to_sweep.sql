-- to_sweep: returns what a sweep has to do, so that a sweep with nothing to do costs one query. In order:
-- whether a job has expired; whether there are counts to fold; ends to subtract from claims; waiting jobs,
-- as far as they are counted; jobs that wait for a handler; keys to free; notes and marks to delete; marked
-- ordering keys; jobs under an invalid priority.
-- $1 now, or null for the server's clock   $2 the minute before which counts are folded   $3 queues
-- plan: walks count_deltas: it stops at the first row, and folded rows are deleted
-- plan: walks claim_ends: it stops at the first row, and folded rows are deleted
-- plan: walks ended_keys_pkey: it stops at the first row
-- plan: walks ordering_key_marks_ordering_key: it stops at the first row
SELECT
    EXISTS (
        SELECT 1 FROM windlass.delayed_jobs
        WHERE expires_at IS NOT NULL AND NOT started AND locked_at IS NULL AND attempts = 0
            AND expires_at <= coalesce($1::timestamptz, now())
    ),
    EXISTS (SELECT 1 FROM windlass.count_deltas)
        OR EXISTS (SELECT 1 FROM windlass.count_minutes WHERE minute < $2::bigint),
    EXISTS (SELECT 1 FROM windlass.claim_ends),
    EXISTS (SELECT 1 FROM windlass.count_deltas) OR EXISTS (SELECT 1 FROM windlass.counts WHERE waiting > 0),
    -- By each type's own gate: the order of characters depends on the collation of the database.
    EXISTS (
        SELECT 1 FROM windlass.job_types t
        WHERE EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.gate = 'no-handler:' || t.name)
    ),
    EXISTS (SELECT 1 FROM windlass.ended_keys),
    EXISTS (SELECT 1 FROM windlass.requeued_jobs WHERE at < statement_timestamp() - interval '1 minute')
        OR EXISTS (SELECT 1 FROM windlass.waiting WHERE since < statement_timestamp() - interval '1 minute'),
    EXISTS (SELECT 1 FROM windlass.ordering_key_marks),
    -- The two ends of the index of claims.
    EXISTS (
        SELECT 1 FROM windlass.delayed_jobs
        WHERE locked_at IS NULL AND gate IS NULL AND queue = ANY ($3::text[]) AND priority > 10
    ) OR EXISTS (
        SELECT 1 FROM windlass.delayed_jobs
        WHERE locked_at IS NULL AND gate IS NULL AND queue = ANY ($3::text[]) AND priority < 0
    );
