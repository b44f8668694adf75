-- rollup_watermark: up to where totals are booked.
SELECT version, booked FROM rollup_watermark;
