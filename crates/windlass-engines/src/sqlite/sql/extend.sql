-- extend: stores a heartbeat, only of a worker that was not declared dead.
-- ?1 id   ?2 now   ?3 expires at
UPDATE workers SET beats = beats + 1, seen_at = ?2, expires_at = ?3 WHERE id = ?1 AND died IS NULL;
