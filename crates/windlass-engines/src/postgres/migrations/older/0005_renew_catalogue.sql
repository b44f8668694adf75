-- renew_catalogue: whoever remembers queues and types must read them again.
UPDATE windlass.catalogue SET version = version + 1;
