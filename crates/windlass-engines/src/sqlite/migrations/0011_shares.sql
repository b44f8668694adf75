-- Shares: among the due jobs of a queue and a priority, those for whom the work is done take turns. A job without a share has
-- none here; but if others of its type and priority have one when it comes in, it has the empty name, under which such jobs
-- are found in one place. The name itself is among the options, as an ordering key is.
ALTER TABLE delayed_jobs ADD COLUMN share TEXT;
CREATE INDEX delayed_jobs_shares ON delayed_jobs (type, priority, share, due, id)
    WHERE share IS NOT NULL AND gate IS NULL AND worker IS NULL;
