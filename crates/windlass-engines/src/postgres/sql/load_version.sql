-- load_version: reads the version of the catalogue, the store's clock, and the settings that decide its
-- durability.
-- $1 now, or null for the server's clock
SELECT version, coalesce($1::timestamptz, clock_timestamp()), current_setting('fsync') = 'on',
    current_setting('synchronous_commit')
FROM windlass.catalogue;
