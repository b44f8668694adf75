-- type_has_work: returns whether any job of a type runs, could run, or has not ended, except the jobs of
-- the triggers that watch this group.
-- ?1 type   ?2 now   ?3 kind of the watched group   ?4 its name
-- ?5 the prefix of the gates of the type's ordering keys
-- ?6 the first text after all of them
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
