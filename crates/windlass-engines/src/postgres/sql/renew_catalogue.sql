-- renew_catalogue: raises the version of the catalogue, so that processes that cache queues and types read
-- them again. The step is random: a store that lost this change, and was then changed in another way, does
-- not reach the same version.
UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint;
