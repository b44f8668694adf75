-- save_receipt: stores one receipt for a request, with every answer.
-- ?1 request   ?2 answers   ?3 now
INSERT INTO receipts (request, answers, at) VALUES (?1, ?2, ?3)
ON CONFLICT (request) DO UPDATE SET answers = excluded.answers, at = excluded.at;
