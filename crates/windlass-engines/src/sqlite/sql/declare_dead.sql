-- declare_dead: a worker is dead, for ever, only if its counter stands where it was seen.
-- ?1 worker   ?2 beats   ?3 what it held
UPDATE workers SET died = (SELECT coalesce(max(died), 0) + 1 FROM workers), held = ?3
WHERE id = ?1 AND beats = ?2 AND died IS NULL;
