-- forget_minutes: delete the minutes that were just folded.
-- ?1 the cut
DELETE FROM count_minutes WHERE minute < ?1;
