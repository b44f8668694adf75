-- fold_claims: what has left claims is taken off what they hold, and each that holds nothing more forgets its jobs. Two who
-- fold at once take different ends. Answers how many it folded.
-- $1 at most so many
WITH noted AS MATERIALIZED (
    SELECT ctid AS place FROM windlass.claim_ends LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    DELETE FROM windlass.claim_ends WHERE ctid = ANY (ARRAY (SELECT place FROM noted)) RETURNING token, jobs
), ended AS MATERIALIZED (
    SELECT token, sum(jobs)::integer AS jobs FROM gone GROUP BY 1
), locked AS MATERIALIZED (
    SELECT token FROM windlass.claims WHERE token = ANY (ARRAY (SELECT token FROM ended)) ORDER BY token FOR UPDATE
), folded AS (
    UPDATE windlass.claims c SET held = c.held - e.jobs, jobs = CASE WHEN c.held > e.jobs THEN c.jobs END
    FROM ended e JOIN locked l ON l.token = e.token
    WHERE c.token = e.token
)
SELECT count(*) FROM gone;
