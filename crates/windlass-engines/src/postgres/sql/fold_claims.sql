-- fold_claims: subtracts the jobs that have left claims from the counts of held jobs; a claim that holds no
-- job any more forgets its ids. Two sessions that fold at once take different ends, and a claim that
-- another session has locked is left for the next time. Returns how many ends it folded.
-- $1 limit
-- plan: walks claim_ends: it stops at its limit, and deletes the rows it has read
-- plan: sorts: ends are grouped by claim, at most as many as the limit takes
WITH noted AS MATERIALIZED (
    SELECT ctid AS place, token, jobs FROM windlass.claim_ends LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), ended AS MATERIALIZED (
    SELECT token, sum(jobs)::integer AS jobs, array_agg(place) AS places FROM noted GROUP BY 1
), locked AS MATERIALIZED (
    SELECT c.token, e.jobs, e.places FROM ended e JOIN windlass.claims c ON c.token = e.token
    FOR UPDATE OF c SKIP LOCKED
), folded AS (
    UPDATE windlass.claims c SET held = c.held - l.jobs, jobs = CASE WHEN c.held > l.jobs THEN c.jobs END
    FROM locked l WHERE c.token = l.token
), gone AS (
    DELETE FROM windlass.claim_ends WHERE ctid = ANY (ARRAY (
        SELECT unnest(places) FROM locked
        UNION ALL
        SELECT unnest(e.places) FROM ended e WHERE NOT EXISTS (SELECT 1 FROM windlass.claims c WHERE c.token = e.token)
    )) RETURNING 1
)
SELECT count(*) FROM gone;
