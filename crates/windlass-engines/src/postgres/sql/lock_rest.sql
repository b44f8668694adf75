-- lock_rest: waits for whoever makes a day of the history at this moment; else a row may be on its way to the default part
-- when it may no longer lie there, and the whole transaction would fail. Nobody makes one until the transaction ends.
-- plan: cold: it locks a table, and has no plan
LOCK TABLE windlass.job_history_rest IN ROW EXCLUSIVE MODE;
