-- What happened in each minute to the jobs of each queue and type. `waits` and `runs` are histograms, as core writes them. Not to be
-- confused with count_minutes, which says when waiting jobs fall due.
CREATE TABLE job_rollups (
    minute INTEGER NOT NULL,
    queue TEXT NOT NULL,
    job_type TEXT NOT NULL,
    enqueued INTEGER NOT NULL,
    started INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    waits TEXT NOT NULL,
    runs TEXT NOT NULL,
    PRIMARY KEY (minute, queue, job_type)
) STRICT, WITHOUT ROWID;

-- What workers have seen, for the duty to add to the minutes.
CREATE TABLE rollup_samples (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    seen TEXT NOT NULL
) STRICT;

-- Up to where the totals in `counts` are in the minutes. What was counted before there were minutes was in none of them.
CREATE TABLE rollup_watermark (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    booked TEXT NOT NULL
) STRICT;
INSERT INTO rollup_watermark (one, version, booked)
SELECT 1, 0, coalesce(group_concat(
    q.name || ' ' || t.name || ' ' || max(c.enqueued, 0) || ' ' || max(c.succeeded, 0) || ' ' || max(c.retried, 0) || ' '
        || max(c.dead, 0) || ' ' || max(c.cancelled, 0) || char(10), ''
), '')
FROM counts c JOIN job_types t ON t.id = c.type JOIN queues q ON q.id = t.queue;
