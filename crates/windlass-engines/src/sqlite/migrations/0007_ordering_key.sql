-- Ordering keys: jobs of one type and name run one at a time. Whoever is not behind the gate of its ordering key is out, and only one may be.
ALTER TABLE delayed_jobs ADD COLUMN ordering_key TEXT;
CREATE UNIQUE INDEX delayed_jobs_ordering_key_out ON delayed_jobs (type, ordering_key)
    WHERE ordering_key IS NOT NULL AND (gate IS NULL OR gate NOT GLOB 'ordering_key:*');
CREATE INDEX delayed_jobs_ordering_key_line ON delayed_jobs (type, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND gate GLOB 'ordering_key:*';
