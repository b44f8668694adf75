-- first_ready: lists when the ready jobs of a type and a priority fell due, and since when they wait; the
-- caller reads only as far as it needs.
-- ?1 type   ?2 priority   ?3 now
SELECT due, max(due, enqueued_at) FROM delayed_jobs
WHERE gate IS NULL AND worker IS NULL AND type = ?1 AND priority = ?2 AND due <= ?3
ORDER BY due, id;
