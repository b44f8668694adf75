-- apply_rollup: moves the watermark, deletes the samples that were rolled up, and stores these rollups. It
-- does all of it only if no other process has moved the watermark since it was read. Returns a row if it
-- was done.
-- $1 version that was read   $2 new version   $3 totals at the watermark   $4 samples that were rolled up
-- by position: $5 minutes   $6 queues   $7 types   $8 enqueued   $9 started   $10 succeeded   $11 retried
-- $12 dead
-- $13 cancelled   $14 waits   $15 runs
WITH moved AS (
    INSERT INTO windlass.rollup_watermark AS m (one, version, booked) VALUES (true, $2::bigint, $3::text)
    ON CONFLICT (one) DO UPDATE SET version = excluded.version, booked = excluded.booked WHERE m.version = $1::bigint
    RETURNING 1
), gone AS (
    DELETE FROM windlass.rollup_samples WHERE id = ANY ($4::bigint[]) AND EXISTS (SELECT 1 FROM moved)
), saved AS (
    INSERT INTO windlass.job_rollups (
        minute, queue, job_type, enqueued, started, succeeded, retried, dead, cancelled, waits, runs
    )
    SELECT * FROM unnest(
        $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
        $13::bigint[], $14::text[], $15::text[]
    ) WHERE EXISTS (SELECT 1 FROM moved)
    ON CONFLICT (minute, queue, job_type) DO UPDATE SET enqueued = excluded.enqueued, started = excluded.started,
        succeeded = excluded.succeeded, retried = excluded.retried, dead = excluded.dead, cancelled = excluded.cancelled,
        waits = excluded.waits, runs = excluded.runs
)
SELECT 1 FROM moved;
