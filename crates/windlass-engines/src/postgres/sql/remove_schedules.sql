-- remove_schedules: deletes schedules that the transaction has locked.
-- $1 names
DELETE FROM windlass.job_schedules WHERE name = ANY ($1::text[]);
