-- insert_job: stores a new job, waiting, without a gate unless another job of its ordering key is out.
-- Without a fairness key it gets the empty one if other jobs of its type and priority have fairness keys.
-- ?1 id   ?2 type   ?3 priority   ?4 payload   ?5 now   ?6 due   ?7 expires at   ?8 key   ?9 correlation
-- ?10 group   ?11 tags   ?12 options   ?13 ordering key   ?14 gate   ?15 fairness key
INSERT INTO delayed_jobs (
    id, type, priority, payload, enqueued_at, due, expires_at, {carried},
    ordering_key, gate, fairness_key
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, coalesce(?15, CASE WHEN EXISTS (
    SELECT 1 FROM delayed_jobs WHERE type = ?2 AND priority = ?3 AND fairness_key > '' AND fairness_key IS NOT NULL
        AND gate IS NULL AND worker IS NULL
) THEN '' END));
