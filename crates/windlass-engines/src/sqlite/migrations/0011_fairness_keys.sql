-- FairnessKeys: among the due jobs of a queue and a priority, those for whom the work is done take turns. A job without a fairness key has
-- none here; but if others of its type and priority have one when it comes in, it has the empty name, under which such jobs
-- are found in one place. The name itself is among the options, as an ordering key is.
ALTER TABLE delayed_jobs ADD COLUMN fairness_key TEXT;
CREATE INDEX delayed_jobs_fairness_keys ON delayed_jobs (type, priority, fairness_key, due, id)
    WHERE fairness_key IS NOT NULL AND gate IS NULL AND worker IS NULL;
