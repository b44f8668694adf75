-- mark_series: something of these series came in, ended or was started over: once it is committed, somebody may go out.
-- by position: $1 types   $2 series
INSERT INTO windlass.series_marks (job_type, series)
SELECT i.job_type, i.series FROM unnest($1::text[], $2::text[]) AS i (job_type, series);
