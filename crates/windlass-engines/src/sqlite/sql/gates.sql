-- gates: lists gates that jobs wait behind, except the gates of suspects and of ordering keys. Steps from
-- one gate to the next in the index, and over all ordering keys at once.
-- ?1 after this one   ?2 limit
WITH RECURSIVE page (gate) AS (
    SELECT (
        SELECT gate FROM delayed_jobs WHERE gate > CASE WHEN ?1 GLOB 'ordering_key:*' THEN 'ordering_key;' ELSE ?1 END
            AND gate <> 'suspect' ORDER BY gate LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.gate FROM delayed_jobs j WHERE j.gate > CASE WHEN page.gate GLOB 'ordering_key:*' THEN 'ordering_key;' ELSE page.gate END
            AND j.gate <> 'suspect' ORDER BY j.gate LIMIT 1
    )
    FROM page WHERE page.gate IS NOT NULL LIMIT ?2 + 1
)
SELECT gate FROM page WHERE gate NOT GLOB 'ordering_key:*' LIMIT ?2;
