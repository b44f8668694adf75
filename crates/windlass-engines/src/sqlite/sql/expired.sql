-- expired: lists waiting jobs that did not start before their expiry, except jobs that are moving to
-- another store.
-- ?1 now   ?2 limit
SELECT id FROM delayed_jobs WHERE expires_at IS NOT NULL AND worker IS NULL AND attempts = 0 AND expires_at <= ?1
    AND (gate IS NULL OR gate NOT LIKE 'spool:%')
ORDER BY expires_at LIMIT ?2;
