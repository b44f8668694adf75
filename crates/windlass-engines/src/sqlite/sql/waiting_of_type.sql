-- waiting_of_type: lists the ready and scheduled jobs of a type.
-- ?1 type   ?2 limit
SELECT id FROM delayed_jobs WHERE gate IS NULL AND worker IS NULL AND type = ?1 LIMIT ?2;
