-- worker_types: reads the types that a worker handles.
-- ?1 worker
SELECT types FROM workers WHERE id = ?1;
