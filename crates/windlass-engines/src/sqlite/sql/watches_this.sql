-- watches_this: returns whether a completion trigger exists and watches this group.
-- ?1 name   ?2 kind of the group   ?3 its name
SELECT EXISTS (SELECT 1 FROM completion_triggers WHERE name = ?1 AND kind = ?2 AND watched = ?3);
