-- declare_dead: a worker is dead for ever, if it is still as silent as it was seen and its lease has run out.
-- $1 now, or null for the server's clock   $2 worker   $3 its heartbeats as seen
-- plan: sorts: what one worker runs, found by its claims
UPDATE windlass.workers w
SET died = nextval('windlass.deaths'),
    held = ARRAY (SELECT r.id FROM windlass.running r WHERE r.worker = w.id ORDER BY r.id)
WHERE w.id = $2::uuid AND w.beats = $3::bigint AND w.died IS NULL
    AND w.expires_at <= coalesce($1::timestamptz, now());
