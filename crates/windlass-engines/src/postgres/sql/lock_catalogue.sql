-- lock_catalogue: whoever declares does so alone. Answers the version.
SELECT version FROM windlass.catalogue FOR UPDATE;
