-- Jobs whose worker died are claimed alone, the most urgent first. After the death of a fleet there are many of them, and each such claim sorted them all.
CREATE INDEX delayed_jobs_suspects ON windlass.delayed_jobs (queue, priority, scheduled_at, id) WHERE gate = 'suspect';
