-- still_hold: returns for each of these jobs whether it runs under this very claim.
-- by position: $1 ids   $2 tokens
-- plan: sorts: the fences of one request
SELECT EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.id = i.id AND j.token = i.token)
FROM unnest($1::bigint[], $2::uuid[]) WITH ORDINALITY AS i (id, token, place) ORDER BY place;
