-- report: stores progress, each only while the caller still holds the claim. Returns which was stored, and
-- the ctids of the rows now.
-- by position, in the order of ids: $1 ids   $2 tokens   $3 progress
UPDATE windlass.delayed_jobs j SET progress = i.progress
FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS i (id, token, progress)
WHERE j.id = i.id AND j.token = i.token
RETURNING j.id, j.token, j.ctid;
