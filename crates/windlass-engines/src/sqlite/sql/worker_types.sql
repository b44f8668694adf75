-- worker_types: what a worker handles.
-- ?1 worker
SELECT types FROM workers WHERE id = ?1;
