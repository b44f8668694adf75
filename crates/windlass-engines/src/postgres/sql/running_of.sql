-- running_of: the running jobs of one worker.
-- $1 worker
-- plan: sorts: what one worker runs, found by its claims
SELECT id, token FROM windlass.running WHERE worker = $1::uuid ORDER BY id;
