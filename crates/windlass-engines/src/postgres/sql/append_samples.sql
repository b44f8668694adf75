-- append_samples: what a worker has seen. While no process rolls up, only the newest are kept. Of the oldest a bounded part is looked at: those that
-- were rolled up long ago may be there for as long as somebody's transaction is older than they are.
-- $1 now, or null for the server's clock   $2 how many microseconds ago   $3 what   $4 so many are kept
WITH added AS (
    INSERT INTO windlass.rollup_samples (at, seen)
    SELECT coalesce($1::timestamptz, clock_timestamp()) - i.ago * interval '1 microsecond', i.seen
    FROM unnest($2::bigint[], $3::text[]) AS i (ago, seen)
    RETURNING id
)
DELETE FROM windlass.rollup_samples
WHERE id <= (SELECT max(id) FROM added) - $4::bigint AND id > (SELECT max(id) FROM added) - $4::bigint - 1000;
