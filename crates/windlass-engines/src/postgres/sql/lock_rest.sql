-- lock_rest: waits for a session that is creating a partition of the history. Without the wait, a row may
-- be on its way to the default partition when it may no longer lie there, and the whole transaction would
-- fail. No session creates a partition until the transaction ends.
-- plan: cold: it locks a table, and has no plan
LOCK TABLE windlass.job_history_rest IN ROW EXCLUSIVE MODE;
