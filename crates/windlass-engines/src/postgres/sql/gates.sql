-- gates: lists gates that jobs wait behind, except the gates of suspects and of ordering keys. Steps from
-- one gate to the next in the index, so that the cost does not grow with the number of waiting jobs.
-- $1 after this one   $2 limit
WITH RECURSIVE page AS (
    (
        SELECT gate FROM windlass.delayed_jobs WHERE gate > $1::text AND gate <> 'suspect' AND gate NOT LIKE 'ordering_key:%'
        ORDER BY gate LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.gate FROM windlass.delayed_jobs j
        WHERE j.gate > page.gate AND j.gate <> 'suspect' AND j.gate NOT LIKE 'ordering_key:%'
        ORDER BY j.gate LIMIT 1
    )
    FROM page WHERE page.gate IS NOT NULL
)
SELECT gate FROM page WHERE gate IS NOT NULL LIMIT $2::integer;
