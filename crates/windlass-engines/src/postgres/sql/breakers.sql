-- breakers: reads the store's clock and all breakers by name.
-- $1 now, or null for the server's clock   $2 limit
-- plan: sorts: breakers, and there are few
SELECT coalesce($1::timestamptz, clock_timestamp()), b.name, b.version, b.state
FROM (SELECT 1) AS one LEFT JOIN windlass.job_breakers b ON true ORDER BY b.name LIMIT $2::integer;
