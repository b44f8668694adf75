-- rollup_watermark: reads the watermark and its totals.
SELECT version, booked FROM rollup_watermark;
