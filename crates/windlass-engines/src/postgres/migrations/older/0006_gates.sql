-- gates: gates that somebody waits behind, but for that of suspects. Steps from one gate to the next in the index, so that
-- its cost does not grow with the number of those who wait.
-- $1 after this one   $2 at most so many
WITH RECURSIVE page AS (
    (
        SELECT gate FROM windlass.delayed_jobs WHERE gate > $1::text AND gate <> 'suspect' ORDER BY gate LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.gate FROM windlass.delayed_jobs j WHERE j.gate > page.gate AND j.gate <> 'suspect'
        ORDER BY j.gate LIMIT 1
    )
    FROM page WHERE page.gate IS NOT NULL
)
SELECT gate FROM page WHERE gate IS NOT NULL LIMIT $2::integer;
