-- postgres-roles: three roles for those who need not own the schema. Run it as the owner, after `windlass migrate`.
-- Names are examples; replace `windlass` if your schema has another name.
CREATE ROLE windlass_worker NOLOGIN;
CREATE ROLE windlass_producer NOLOGIN;
CREATE ROLE windlass_reader NOLOGIN;
GRANT USAGE ON SCHEMA windlass TO windlass_worker, windlass_producer, windlass_reader;

-- Workers, and commands that act on jobs and queues. They create and drop nothing: the days of the history are made
-- and dropped by functions that run as the owner.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA windlass TO windlass_worker;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA windlass TO windlass_worker;
GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.complete TO windlass_worker;

-- Producers put jobs in and see what became of their requests. They cannot read other payloads by themselves, but for
-- what a key leads them to.
GRANT SELECT ON windlass.schema_versions, windlass.catalogue, windlass.queues, windlass.job_types, windlass.counts,
    windlass.count_deltas, windlass.delayed_jobs, windlass.delayed_jobs_dlq, windlass.waiting TO windlass_producer;
GRANT SELECT, INSERT, UPDATE ON windlass.receipts TO windlass_producer;
GRANT INSERT, UPDATE ON windlass.delayed_jobs TO windlass_producer;
GRANT INSERT ON windlass.count_deltas TO windlass_producer;
GRANT SELECT, INSERT, UPDATE, DELETE ON windlass.job_keys TO windlass_producer;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA windlass TO windlass_producer;
-- One that puts jobs in by the SQL functions alone needs nothing but this and the use of the schema.
GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many TO windlass_producer;

-- Readers look: `windlass status`, `windlass job list`, dashboards of your own.
GRANT SELECT ON ALL TABLES IN SCHEMA windlass TO windlass_reader;
