-- running_of: lists the running jobs of one worker.
-- $1 worker
-- plan: sorts: the running jobs of one worker, found by its claims
SELECT id, token FROM windlass.running WHERE worker = $1::uuid ORDER BY id;
