-- renew_catalogue: whoever remembers queues and types must read them again. The number is one that a store which lost this
-- change, and was then changed in another way, does not come to as well.
UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint;
