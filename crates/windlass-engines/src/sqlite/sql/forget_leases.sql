-- forget_leases: deletes leases that no worker needs, to make room for others. A heartbeat of this age is
-- older than every expiry.
-- ?1 heartbeats up to then   ?2 duties that are requested, as a JSON array
DELETE FROM background_job_leases WHERE heartbeat_at <= ?1 AND job_name NOT IN (SELECT value FROM json_each(?2));
