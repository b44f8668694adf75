-- postgres-roles: four roles that need not own the schema. Run it as the owner, after `windlass migrate`;
-- it may be run repeatedly. Names are examples; replace `windlass` if your schema has another name.
--
-- Existing roles are left as they are. An owner without the right to create roles lets another role create
-- these four first.
DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['windlass_worker', 'windlass_producer', 'windlass_client', 'windlass_reader'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;
END
$roles$;
GRANT USAGE ON SCHEMA windlass TO windlass_worker, windlass_producer, windlass_client, windlass_reader;

-- Workers, and commands that act on jobs and queues. They create and drop no tables: functions that run as
-- the owner create and drop the partitions of the history.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA windlass TO windlass_worker;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA windlass TO windlass_worker;
GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.complete, windlass.create_partitions,
    windlass.drop_partitions, windlass.advance_ordering_key, windlass.mark_put_off TO windlass_worker;

-- Producers enqueue by the SQL functions: from any language, with `enqueue_in` or through sqlx. The
-- functions run as the owner, so producers need no right on any table and see no job, not even their own.
GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many TO windlass_producer;

-- Clients enqueue by an engine of their own (`Client::enqueue`, `windlass job enqueue`), which batches
-- calls, repeats requests without an answer, and so reads and writes tables. They can read payloads, and
-- neither claim nor end jobs: of an existing job they may write only the columns that `on_conflict:
-- replace` changes.
GRANT SELECT ON windlass.schema_versions, windlass.catalogue, windlass.queues, windlass.job_types, windlass.counts,
    windlass.count_deltas, windlass.delayed_jobs, windlass.delayed_jobs_dlq, windlass.waiting TO windlass_client;
GRANT SELECT, INSERT, UPDATE ON windlass.receipts TO windlass_client;
REVOKE UPDATE ON windlass.delayed_jobs FROM windlass_client;
GRANT INSERT, UPDATE (payload, scheduled_at, priority, expires_at, options, fairness_key) ON windlass.delayed_jobs TO windlass_client;
GRANT INSERT ON windlass.count_deltas, windlass.ordering_key_marks TO windlass_client;
GRANT SELECT, INSERT, UPDATE, DELETE ON windlass.job_keys TO windlass_client;
-- A job with `on_conflict: revive` makes a dead letter ready again.
GRANT UPDATE, DELETE ON windlass.delayed_jobs_dlq TO windlass_client;
GRANT INSERT ON windlass.attempts TO windlass_client;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA windlass TO windlass_client;
GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.advance_ordering_key, windlass.mark_put_off TO windlass_client;

-- Readers read: `windlass status`, `windlass job list`, dashboards of your own.
GRANT SELECT ON ALL TABLES IN SCHEMA windlass TO windlass_reader;

-- For objects that the role which runs this file creates later, by a migration of a newer version. If
-- another role migrates, that role runs the file once more afterwards.
ALTER DEFAULT PRIVILEGES IN SCHEMA windlass GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO windlass_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA windlass GRANT USAGE, SELECT ON SEQUENCES TO windlass_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA windlass GRANT EXECUTE ON FUNCTIONS TO windlass_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA windlass GRANT SELECT ON TABLES TO windlass_reader;
