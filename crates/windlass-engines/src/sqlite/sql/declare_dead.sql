-- declare_dead: declares a worker dead for ever, only if it has sent no heartbeat since it was read.
-- ?1 worker   ?2 the number of its heartbeats when it was read   ?3 the jobs that it held
UPDATE workers SET died = (SELECT coalesce(max(died), 0) + 1 FROM workers), held = ?3
WHERE id = ?1 AND beats = ?2 AND died IS NULL;
