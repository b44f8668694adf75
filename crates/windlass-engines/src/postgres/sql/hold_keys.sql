-- hold_keys: gives keys to jobs. The caller has locked the keys.
-- by position: $1 types   $2 keys   $3 jobs   $4 scopes   $5 held until at least
UPDATE windlass.job_keys k SET job = i.job, scope = i.scope, until = i.until
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[])
    AS i (job_type, key, job, scope, until)
WHERE k.job_type = i.job_type AND k.key = i.key;
