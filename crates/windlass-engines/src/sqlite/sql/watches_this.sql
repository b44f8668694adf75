-- watches_this: whether a drain is there and watches this group.
-- ?1 name   ?2 what kind of group   ?3 the name of that
SELECT EXISTS (SELECT 1 FROM completion_triggers WHERE name = ?1 AND kind = ?2 AND watched = ?3);
