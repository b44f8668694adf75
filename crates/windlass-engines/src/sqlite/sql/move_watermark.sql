-- move_watermark: totals are booked up to here, if nobody has moved the watermark since it was read.
-- ?1 version that was read   ?2 version from now on   ?3 totals
INSERT INTO rollup_watermark (one, version, booked) VALUES (1, ?2, ?3)
ON CONFLICT (one) DO UPDATE SET version = excluded.version, booked = excluded.booked WHERE version = ?1;
