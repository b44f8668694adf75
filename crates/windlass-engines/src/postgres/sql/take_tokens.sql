-- take_tokens: takes tokens of one key of a rate limit, as core's `take` decides. Guarded by
-- `policies::tokens_are_taken_as_core_decides`. The clock is read under the row's lock: a session that
-- waited for the lock would otherwise write an older time, and give back tokens that others have taken
-- meanwhile.
-- $1 now, or null for the server's clock   $2 limit   $3 key   $4 microseconds between tokens
-- $5 how many microseconds ahead of their time they may be taken   $6 maximum number of tokens
INSERT INTO windlass.job_rate_limits AS r (name, key, due, granted)
SELECT $2::text, $3::text, now + least($6::bigint, $5::bigint / $4::bigint + 1) * $4::bigint,
    least($6::bigint, $5::bigint / $4::bigint + 1)
FROM (SELECT round(extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())) * 1000000)::bigint) AS clock (now)
ON CONFLICT (name, key) DO UPDATE SET (due, granted) = (
    SELECT start + least($6::bigint, there) * $4::bigint, least($6::bigint, there)
    FROM (SELECT round(extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())) * 1000000)::bigint) AS clock (now),
        LATERAL (SELECT least(greatest(r.due, now), now + $5::bigint + $4::bigint)) AS a (start),
        LATERAL (
            SELECT CASE WHEN start > now + $5::bigint THEN 0 ELSE (now + $5::bigint - start) / $4::bigint + 1 END
        ) AS b (there)
)
RETURNING r.granted, r.due,
    round(extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())) * 1000000)::bigint;
