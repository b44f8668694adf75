-- left_of_type: whether anything of a type runs, could run, or has not ended, the jobs of a drain itself apart.
-- ?1 type   ?2 now   ?3 what the keys of the drain's own jobs begin with   ?4 what the gates of the type's series begin with, and
-- ?5 what comes after all of them
SELECT
    EXISTS (
        SELECT 1 FROM delayed_jobs WHERE worker IS NOT NULL AND type = ?1 AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    ),
    EXISTS (
        SELECT 1 FROM delayed_jobs WHERE gate IS NULL AND worker IS NULL AND type = ?1
            AND priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) AND due <= ?2 AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE coalesce(gate, '') <> '' AND type = ?1 AND gate = 'suspect' AND due <= ?2
            AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE coalesce(gate, '') <> '' AND type = ?1 AND gate >= ?4 AND gate < ?5 AND due <= ?2
            AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    ),
    EXISTS (
        SELECT 1 FROM delayed_jobs WHERE worker IS NOT NULL AND type = ?1 AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE gate IS NULL AND worker IS NULL AND type = ?1
            AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    ) OR EXISTS (
        SELECT 1 FROM delayed_jobs WHERE coalesce(gate, '') <> '' AND type = ?1 AND substr(coalesce(key, ''), 1, length(?3)) <> ?3
    );
