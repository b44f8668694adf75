-- set_priority: a waiting job gets another priority; never a running one.
-- $1 id   $2 priority
UPDATE windlass.delayed_jobs SET priority = $2::integer WHERE id = $1::bigint AND locked_by IS NULL;
