-- Batches of jobs that leave for another store: under which request they go, since when, and which jobs, as a JSON list in the
-- order of the request. They wait behind the gate that names the request.
CREATE TABLE spool_batches (
    request BLOB PRIMARY KEY,
    since INTEGER NOT NULL,
    ids TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spool_batches_since ON spool_batches (since);
