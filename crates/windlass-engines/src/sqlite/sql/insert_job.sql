-- insert_job: a new job, waiting, without a gate unless another of its series is out.
-- ?1 id   ?2 type   ?3 priority   ?4 payload   ?5 now   ?6 due   ?7 expires at   ?8 key   ?9 correlation
-- ?10 group   ?11 tags   ?12 options   ?13 series   ?14 gate
INSERT INTO delayed_jobs (
    id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    series, gate
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);
