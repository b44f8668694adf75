-- forget_requeued_jobs: deletes notes that every claimer has read by now.
DELETE FROM windlass.requeued_jobs WHERE at < statement_timestamp() - interval '1 minute';
