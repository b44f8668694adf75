-- merge_count_minutes: merges past minutes into one for each queue, so that summing them stays cheap.
-- $1 minutes before this one
-- plan: sorts: past minutes are grouped by queue, and are few
WITH gone AS (
    DELETE FROM windlass.count_minutes WHERE minute < $1::bigint RETURNING queue, n
)
INSERT INTO windlass.count_minutes AS c (queue, minute, n)
SELECT queue, $1::bigint, sum(n) FROM gone GROUP BY 1 HAVING sum(n) <> 0 ORDER BY 1
ON CONFLICT (queue, minute) DO UPDATE SET n = c.n + excluded.n;
