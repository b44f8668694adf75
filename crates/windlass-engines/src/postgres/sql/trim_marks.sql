-- trim_marks: keeps only the newest mark of triggers that cannot be read, and so are not evaluated. A
-- process of the version that wrote them still finds that mark.
-- $1 names   $2 limit for each
DELETE FROM windlass.completion_trigger_marks WHERE ctid = ANY (ARRAY (
    SELECT m.place FROM unnest($1::text[]) AS d (name) CROSS JOIN LATERAL (
        SELECT k.ctid AS place FROM windlass.completion_trigger_marks k WHERE k.trigger = d.name ORDER BY k.id DESC OFFSET 1 LIMIT $2::integer
    ) AS m
));
