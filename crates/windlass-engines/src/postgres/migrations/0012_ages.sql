-- What is old is found by its age. An index of ranges of pages is of no use here: our own sessions do without bitmaps, and a range whose
-- room was used again keeps its oldest time for ever. So every prune walked over whole tables for the little that was old.
-- Times come in order, so that a new one is put behind the last. All locks are taken before anything is built: whoever has to wait for one
-- of them in vain has built nothing for it.
LOCK TABLE windlass.receipts, windlass.job_traces, windlass.claims IN ACCESS EXCLUSIVE MODE;
DROP INDEX windlass.receipts_at;
CREATE INDEX receipts_at ON windlass.receipts (at);
DROP INDEX windlass.job_traces_at;
CREATE INDEX job_traces_at ON windlass.job_traces (at);
DROP INDEX windlass.claims_at;
CREATE INDEX claims_at ON windlass.claims (at);
