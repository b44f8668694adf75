-- declare_dead: declares a worker dead for ever, if it has sent no heartbeat since it was read and its
-- lease has expired.
-- $1 now, or null for the server's clock   $2 worker   $3 the number of its heartbeats when it was read
-- plan: sorts: the running jobs of one worker, found by its claims
UPDATE windlass.workers w
SET died = nextval('windlass.deaths'),
    held = ARRAY (SELECT r.id FROM windlass.running r WHERE r.worker = w.id ORDER BY r.id)
WHERE w.id = $2::uuid AND w.beats = $3::bigint AND w.died IS NULL
    AND w.expires_at <= coalesce($1::timestamptz, now());
