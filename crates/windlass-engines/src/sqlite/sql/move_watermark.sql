-- move_watermark: stores the watermark with its totals, if no other process has moved it since it was read.
-- ?1 version that was read   ?2 new version   ?3 totals
INSERT INTO rollup_watermark (one, version, booked) VALUES (1, ?2, ?3)
ON CONFLICT (one) DO UPDATE SET version = excluded.version, booked = excluded.booked WHERE version = ?1;
