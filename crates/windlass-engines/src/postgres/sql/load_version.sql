-- load_version: the version of the catalogue, the store's clock, and what decides how durable it is.
-- $1 now, or null for the server's clock
SELECT version, coalesce($1::timestamptz, clock_timestamp()), current_setting('fsync') = 'on',
    current_setting('synchronous_commit')
FROM windlass.catalogue;
