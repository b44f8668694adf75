-- claimed_before: lists the jobs of a claim that this worker still holds, most urgent first.
-- $1 now, or null for the server's clock   $2 worker   $3 token
-- plan: sorts: the jobs of one claim, found by their ids
SELECT coalesce($1::timestamptz, now()), locked_at, boosted, NULL::boolean,
    {job}
FROM windlass.delayed_jobs
WHERE id = ANY (ARRAY (SELECT unnest(c.jobs) FROM windlass.claims c WHERE c.token = $3::uuid))
    AND locked_by = $2::uuid AND token = $3::uuid
ORDER BY priority, scheduled_at, id;
