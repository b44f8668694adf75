-- type_totals: what happened so far to the jobs of each type.
SELECT q.name, t.name, c.enqueued, c.succeeded, c.retried, c.dead, c.cancelled, c.started_over
FROM counts c JOIN job_types t ON t.id = c.type JOIN queues q ON q.id = t.queue;
