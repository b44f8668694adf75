-- Batches of jobs that leave for another store: under which request they go, since when, and which jobs, as a JSON list in the
-- order of the request. They wait behind the gate that names the request.
CREATE TABLE spill_batches (
    request BLOB PRIMARY KEY,
    since INTEGER NOT NULL,
    ids TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spill_batches_since ON spill_batches (since);
