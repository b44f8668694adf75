-- Partitions of the history: they are created a few days ahead and dropped when their day is over. Both
-- functions run as the owner, so that the process that does maintenance needs no right to create tables. A
-- caller that chooses the day could drop the whole history, so no role may call them until the owner grants
-- it.

-- Creates the partitions that will be needed within three days; for types with a retention of more than a
-- hundred days, whole months. Rows that arrived before their day was created are in the default partition.
-- The default partition stays small: adding a day scans it under a lock. A day that would wait for a lock
-- is left for the next call.
CREATE FUNCTION windlass.create_partitions(today timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $create_partitions$
DECLARE
    needed record;
    day_part text;
    month_part text;
    part text;
    starts timestamptz;
    ends timestamptz;
    made integer := 0;
BEGIN
    FOR needed IN
        SELECT day, bool_or(far) AS far FROM (
            SELECT (today AT TIME ZONE 'UTC')::date + t.retention_days + ahead AS day, t.retention_days > 100 AS far
            FROM windlass.job_types t, generate_series(0, 3) AS ahead
            WHERE t.retention_days > 0
        ) AS days GROUP BY day ORDER BY day
    LOOP
        day_part := 'job_history_' || to_char(needed.day, 'YYYYMMDD');
        month_part := 'job_history_' || to_char(needed.day, 'YYYYMM');
        CONTINUE WHEN to_regclass('windlass.' || day_part) IS NOT NULL
            OR to_regclass('windlass.' || month_part) IS NOT NULL;
        -- A month that already has partitions of days gets days.
        IF needed.far AND NOT EXISTS (
            SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'windlass.job_history'::regclass AND c.relname LIKE month_part || '__'
        ) THEN
            part := month_part;
            starts := date_trunc('month', needed.day::timestamp) AT TIME ZONE 'UTC';
            ends := (date_trunc('month', needed.day::timestamp) + interval '1 month') AT TIME ZONE 'UTC';
        ELSE
            part := day_part;
            starts := needed.day::timestamp AT TIME ZONE 'UTC';
            ends := (needed.day + 1)::timestamp AT TIME ZONE 'UTC';
        END IF;
        CONTINUE WHEN EXISTS (
            SELECT 1 FROM windlass.job_history_rest WHERE keep_until >= starts AND keep_until < ends
        );
        BEGIN
            EXECUTE format('CREATE TABLE windlass.%I (LIKE windlass.job_history INCLUDING DEFAULTS)', part);
            EXECUTE format(
                'ALTER TABLE windlass.job_history ATTACH PARTITION windlass.%I FOR VALUES FROM (%L) TO (%L)',
                part, starts, ends
            );
            made := made + 1;
        EXCEPTION WHEN lock_not_available OR duplicate_table OR unique_violation OR check_violation THEN
            -- Another session holds a lock, or is creating the same day. There are days left to try again.
            NULL;
        END;
    END LOOP;
    RETURN made;
END
$create_partitions$;

-- Drops the oldest partition of the history whose day (or month) is over, with the attempts of its jobs.
-- Attempts are many, so they are deleted in batches, and the partition is dropped with the last batch; the
-- lock that dropping takes is held for nothing else. Returns about how many jobs the partition held, and
-- whether there is more to do.
CREATE FUNCTION windlass.drop_partitions(present timestamptz, OUT dropped bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $drop_partitions$
DECLARE
    attempts_max constant integer := 50000;
    part record;
    gone bigint;
BEGIN
    dropped := 0;
    more := false;
    SELECT c.relname, c.reltuples, count(*) OVER () > 1 AS is_followed INTO part
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'windlass.job_history'::regclass AND c.relname ~ '^job_history_\d{6}(\d\d)?$'
        AND CASE
            WHEN c.relname ~ '\d{8}$' THEN to_date(right(c.relname, 8), 'YYYYMMDD') + 1
            ELSE (to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month')::date
        END <= (present AT TIME ZONE 'UTC')::date
    ORDER BY c.relname LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    EXECUTE format(
        'DELETE FROM windlass.attempts WHERE id IN (
            SELECT a.id FROM windlass.%I h JOIN windlass.attempts a ON a.job = h.id
            WHERE h.attempts > 1 OR h.last_error IS NOT NULL OR h.state = 2 LIMIT %s
        )', part.relname, attempts_max
    );
    GET DIAGNOSTICS gone = ROW_COUNT;
    more := part.is_followed OR gone >= attempts_max;
    IF gone < attempts_max THEN
        EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM windlass.%I LIMIT 1000) AS first_of_them', part.relname)
            INTO dropped;
        EXECUTE format('DROP TABLE windlass.%I', part.relname);
        dropped := greatest(dropped, part.reltuples::bigint);
    END IF;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
    dropped := 0;
    more := false;
END
$drop_partitions$;

REVOKE EXECUTE ON FUNCTION windlass.create_partitions, windlass.drop_partitions FROM PUBLIC;
