-- due_before_minute: counts the waiting jobs of a queue without a gate that fall due before a minute.
-- ?1 queue   ?2 minute
SELECT coalesce(sum(n), 0) FROM count_minutes WHERE queue = ?1 AND minute < ?2;
