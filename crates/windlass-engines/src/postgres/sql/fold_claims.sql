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
    -- In order, so that two who fold at once do not wait for each other in a circle.
    SELECT c.token, e.jobs FROM (SELECT token, jobs FROM ended ORDER BY token) AS e
    JOIN windlass.claims c ON c.token = e.token
    FOR UPDATE OF c
), folded AS (
    UPDATE windlass.claims c SET held = c.held - l.jobs, jobs = CASE WHEN c.held > l.jobs THEN c.jobs END
    FROM locked l WHERE c.token = l.token
)
SELECT count(*) FROM gone;
