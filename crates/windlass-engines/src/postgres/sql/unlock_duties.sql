-- unlock_duties: releases locks of this session.
-- $1 duties
SELECT pg_advisory_unlock(hashtextextended('windlass.' || i.duty, 0))
FROM unnest($1::text[]) WITH ORDINALITY AS i (duty, place) ORDER BY i.place;
