-- trim_marks: of drains that cannot be read, and so are not looked at, only the newest mark is kept. A process of the version that wrote
-- them still finds it.
-- $1 names   $2 at most so many of each
DELETE FROM windlass.completion_trigger_marks WHERE ctid = ANY (ARRAY (
    SELECT m.place FROM unnest($1::text[]) AS d (name) CROSS JOIN LATERAL (
        SELECT k.ctid AS place FROM windlass.completion_trigger_marks k WHERE k.trigger = d.name ORDER BY k.id DESC OFFSET 1 LIMIT $2::integer
    ) AS m
));
