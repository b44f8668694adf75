-- lock_catalogue: locks the catalogue, so that only one session declares at a time. Returns the version.
SELECT version FROM windlass.catalogue FOR UPDATE;
