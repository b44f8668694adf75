-- close_receipt: stores the answer to each job of a request.
-- $1 request   $2 answers
UPDATE windlass.receipts SET answers = $2::text WHERE request = $1::uuid;
