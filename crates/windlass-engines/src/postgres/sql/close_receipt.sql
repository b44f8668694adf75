-- close_receipt: what every job of a request was answered.
-- $1 request   $2 answers
UPDATE windlass.receipts SET answers = $2::text WHERE request = $1::uuid;
