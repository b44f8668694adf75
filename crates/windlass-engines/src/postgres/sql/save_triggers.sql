-- save_triggers: stores completion triggers. The transaction has locked the existing ones and has compared
-- their versions; a trigger that another process has just stored is left alone, with its marks. For a new
-- trigger, it deletes marks that outlived an earlier trigger of the same name. For a trigger that watches
-- another group now, it deletes the marks of the former group. Returns which were stored.
-- by position: $1 names   $2 versions that were read   $3 new versions   $4 kinds of groups
-- $5 names of groups
-- $6 whether it waits for retries   $7 records
-- plan: sorts: triggers, and there are few
WITH input AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::boolean[], $7::text[])
        AS i (name, was, version, kind, watched, wait_for_retries, record)
), saved AS (
    INSERT INTO windlass.completion_triggers AS d (name, version, kind, watched, wait_for_retries, record)
    SELECT name, version, kind, watched, wait_for_retries, record FROM input ORDER BY name COLLATE "C"
    ON CONFLICT (name) DO UPDATE SET version = excluded.version, kind = excluded.kind, watched = excluded.watched,
        wait_for_retries = excluded.wait_for_retries, record = excluded.record
    WHERE d.version = (SELECT w.was FROM unnest($1::text[], $2::bigint[]) AS w (name, was) WHERE w.name = excluded.name)
    RETURNING d.name
), forgotten AS (
    -- The triggers as they were when this statement began.
    DELETE FROM windlass.completion_trigger_marks WHERE trigger = ANY (ARRAY (
        SELECT s.name FROM saved s JOIN input i ON i.name = s.name LEFT JOIN windlass.completion_triggers d ON d.name = i.name
        WHERE d.name IS NULL OR d.kind <> i.kind OR d.watched <> i.watched
    ))
)
SELECT name FROM saved;
