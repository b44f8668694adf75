-- type_has_work: whether anything of a type runs, could run, or has not ended, but for the jobs of the drains that watch this group.
-- ?1 type   ?2 now   ?3 what kind of group is watched   ?4 the name of that   ?5 what the gates of the type's ordering_key begin with, and
-- ?6 what comes after all of them
WITH hooks AS (SELECT 'trigger/' || name || '/' AS own FROM completion_triggers WHERE kind = ?3 AND watched = ?4)
SELECT
    EXISTS (
        SELECT 1 FROM delayed_jobs WHERE worker IS NOT NULL AND type = ?1
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    ),
    EXISTS (
        SELECT 1 FROM delayed_jobs WHERE gate IS NULL AND worker IS NULL AND type = ?1
            AND priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) AND due <= ?2
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE coalesce(gate, '') <> '' AND type = ?1 AND gate = 'suspect' AND due <= ?2
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE coalesce(gate, '') <> '' AND type = ?1 AND gate >= ?5 AND gate < ?6 AND due <= ?2
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    ),
    EXISTS (
        SELECT 1 FROM delayed_jobs WHERE worker IS NOT NULL AND type = ?1
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE gate IS NULL AND worker IS NULL AND type = ?1
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE coalesce(gate, '') <> '' AND type = ?1
            AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM hooks WHERE substr(key, 1, length(own)) = own))
    );
