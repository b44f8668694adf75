-- set_priority: a waiting job gets another priority; never a running one. Without a share it has the empty one
-- if others of its type and priority have shares.
-- ?1 id   ?2 priority
UPDATE delayed_jobs SET
    priority = ?2,
    share = coalesce(share, CASE WHEN EXISTS (
        SELECT 1 FROM delayed_jobs o WHERE o.type = delayed_jobs.type AND o.priority = ?2
            AND o.share > '' AND o.share IS NOT NULL AND o.gate IS NULL AND o.worker IS NULL
    ) THEN '' END)
WHERE id = ?1 AND worker IS NULL;
