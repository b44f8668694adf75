-- type_totals: reads the totals of the events of each type.
SELECT q.name, t.name, c.enqueued, c.succeeded, c.retried, c.dead, c.cancelled, c.started_over
FROM counts c JOIN job_types t ON t.id = c.type JOIN queues q ON q.id = t.queue;
