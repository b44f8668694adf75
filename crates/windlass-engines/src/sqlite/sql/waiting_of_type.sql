-- waiting_of_type: ready and scheduled jobs of a type.
-- ?1 type   ?2 at most so many
SELECT id FROM delayed_jobs WHERE gate IS NULL AND worker IS NULL AND type = ?1 LIMIT ?2;
