-- forget_leases: leases that nobody would miss, to make room for others. So old a heartbeat is older than every expiry.
-- ?1 heartbeats up to then   ?2 duties that are asked for, as a JSON array
DELETE FROM background_job_leases WHERE heartbeat_at <= ?1 AND job_name NOT IN (SELECT value FROM json_each(?2));
