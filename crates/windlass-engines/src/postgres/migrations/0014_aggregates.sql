-- What happened in each minute to the jobs of each queue and type; minutes count from 1970. `waits` and `runs` are histograms, as core
-- writes them. Not to be confused with count_minutes, which says when waiting jobs fall due.
CREATE TABLE windlass.job_rollups (
    minute bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    job_type text COLLATE "C" NOT NULL,
    enqueued bigint NOT NULL,
    started bigint NOT NULL,
    succeeded bigint NOT NULL,
    retried bigint NOT NULL,
    dead bigint NOT NULL,
    cancelled bigint NOT NULL,
    waits text NOT NULL,
    runs text NOT NULL,
    PRIMARY KEY (minute, queue, job_type)
);

-- What workers have seen, for the duty to add to the minutes. Only ever added to, so nobody waits for anybody.
CREATE TABLE windlass.rollup_samples (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    seen text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Up to where the totals in counts and count_deltas are in the minutes. Whoever rolls up names the version it has read. What was counted
-- before there were minutes was in none of them.
CREATE TABLE windlass.rollup_watermark (
    one boolean PRIMARY KEY CHECK (one),
    version bigint NOT NULL,
    booked text NOT NULL
) WITH (fillfactor = 50);
INSERT INTO windlass.rollup_watermark (one, version, booked)
SELECT true, 0, coalesce(string_agg(format(E'%s %s %s %s %s %s %s\n', queue, job_type, enqueued, succeeded, retried, dead, cancelled), ''), '')
FROM (
    SELECT job_type, min(queue) AS queue, greatest(sum(enqueued), 0) AS enqueued, greatest(sum(succeeded), 0) AS succeeded,
        greatest(sum(retried), 0) AS retried, greatest(sum(dead), 0) AS dead, greatest(sum(cancelled), 0) AS cancelled
    FROM (
        SELECT job_type, queue, enqueued, succeeded, retried, dead, cancelled FROM windlass.counts
        UNION ALL SELECT job_type, queue, enqueued, succeeded, retried, dead, cancelled FROM windlass.count_deltas
    ) AS both_parts GROUP BY 1
) AS totals;

-- Whoever may fold counts may do the same with minutes, and whoever may read counts may read them.
DO $grants$
DECLARE
    may record;
BEGIN
    FOR may IN
        SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS who,
            bool_or(c.relname = 'count_deltas' AND a.privilege_type = 'DELETE') AS rolls up
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid IN ('windlass.counts'::regclass, 'windlass.count_deltas'::regclass) AND a.grantee <> c.relowner
            AND a.privilege_type IN ('SELECT', 'DELETE')
        GROUP BY 1
    LOOP
        EXECUTE format('GRANT SELECT ON windlass.job_rollups TO %s', may.who);
        IF may.rolls up THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON windlass.job_rollups, windlass.rollup_samples, windlass.rollup_watermark TO %s', may.who);
        END IF;
    END LOOP;
END
$grants$;
