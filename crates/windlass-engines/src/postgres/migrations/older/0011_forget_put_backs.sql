-- forget_requeued_jobs: notes that every claimer has read by now.
DELETE FROM windlass.requeued_jobs WHERE at < clock_timestamp() - interval '1 minute';
