-- Keys of jobs, and receipts of enqueue requests.

-- The job that holds each key, and for how long. A row without a job belongs to a transaction that is about
-- to take the key.
CREATE TABLE windlass.job_keys (
    job_type text NOT NULL,
    key text NOT NULL,
    job bigint,
    scope text,
    until timestamptz,
    PRIMARY KEY (job_type, key)
);
CREATE INDEX job_keys_until ON windlass.job_keys (until) WHERE until IS NOT NULL;

-- Keys of jobs that ended in a caller's transaction. The key itself is left alone there, so that no enqueue
-- has to wait for that transaction to end; maintenance frees it after the commit. Until then the key
-- belongs to a job that has ended, which is as good as free.
CREATE TABLE windlass.ended_keys (
    job bigint PRIMARY KEY,
    job_type text NOT NULL,
    key text NOT NULL
);

-- The answer to each enqueue request: the ids of its jobs, and every answer in full if not all jobs were
-- new. A receipt with neither is a tombstone: a client queried the request before it arrived, and it stores
-- nothing.
CREATE TABLE windlass.receipts (
    request uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    ids bigint[],
    answers text
);
CREATE INDEX receipts_at ON windlass.receipts (at);
