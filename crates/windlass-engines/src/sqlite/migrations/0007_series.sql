-- Series: jobs of one type and name run one at a time. Whoever is not behind the gate of its series is out, and only one may be.
ALTER TABLE delayed_jobs ADD COLUMN series TEXT;
CREATE UNIQUE INDEX delayed_jobs_series_out ON delayed_jobs (type, series)
    WHERE series IS NOT NULL AND (gate IS NULL OR gate NOT GLOB 'series:*');
CREATE INDEX delayed_jobs_series_line ON delayed_jobs (type, series, id)
    WHERE series IS NOT NULL AND gate GLOB 'series:*';
