-- Jobs whose worker died are claimed alone, the most urgent first. After the death of a fleet there are many of them, and each such claim sorted them all.
-- Who has a big table and workers that must not wait makes it before, concurrently.
CREATE INDEX IF NOT EXISTS delayed_jobs_suspects ON windlass.delayed_jobs (queue, priority, scheduled_at, id) WHERE gate = 'suspect';
