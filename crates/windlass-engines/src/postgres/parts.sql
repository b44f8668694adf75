-- Parts of statements. `{NAME t}` in a statement stands for the part with this name, with `t.` in place of
-- `$.`.

-- part watched_by_d: whether the completion trigger `d` watches a job. The job of a trigger does not belong
-- to the group that the trigger watches, whichever trigger watches the group.
d.watched = CASE d.kind WHEN 'queue' THEN $.queue WHEN 'type' THEN $.job_type ELSE $.job_group END
    AND CASE WHEN $.key LIKE 'trigger/%/%' THEN NOT EXISTS (
        SELECT 1 FROM windlass.completion_triggers o
        WHERE o.name = split_part($.key, '/', 2) COLLATE "C" AND o.kind = d.kind AND o.watched = d.watched
    ) ELSE true END

-- part of_hooks: whether a job belongs to one of the completion triggers `hooks`.
coalesce(
    $.key LIKE 'trigger/%/%' AND split_part($.key, '/', 2) COLLATE "C" = ANY ((SELECT hooks FROM clock)::text[]), false
)
