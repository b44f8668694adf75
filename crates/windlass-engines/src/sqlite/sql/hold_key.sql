-- hold_key: gives a key to a job, also a key of a job that no longer holds it.
-- ?1 type   ?2 key   ?3 job   ?4 scope   ?5 until
INSERT INTO job_keys (type, key, job, scope, until) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (type, key) DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until;
