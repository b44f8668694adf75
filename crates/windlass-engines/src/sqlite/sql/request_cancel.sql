-- request_cancel: asks a running job to stop; the first reason stays.
-- ?1 id   ?2 why
UPDATE delayed_jobs SET cancel_requested = coalesce(cancel_requested, ?2)
WHERE id = ?1 AND worker IS NOT NULL RETURNING token;
