-- append_samples: appends the samples of a worker. While no process rolls up, only the newest samples are
-- kept. The statement checks a bounded part of the oldest samples: samples that were rolled up long ago may
-- stay for as long as a transaction is open that is older than they are.
-- $1 now, or null for the server's clock   $2 age in microseconds   $3 samples
-- $4 number of samples that are kept
WITH added AS (
    INSERT INTO windlass.rollup_samples (at, seen)
    SELECT coalesce($1::timestamptz, clock_timestamp()) - i.ago * interval '1 microsecond', i.seen
    FROM unnest($2::bigint[], $3::text[]) AS i (ago, seen)
    RETURNING id
)
DELETE FROM windlass.rollup_samples
WHERE id <= (SELECT max(id) FROM added) - $4::bigint AND id > (SELECT max(id) FROM added) - $4::bigint - 1000;
