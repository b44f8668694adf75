-- forget_minutes: deletes the minutes that were just merged.
-- ?1 the cut
DELETE FROM count_minutes WHERE minute < ?1;
