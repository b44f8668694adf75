-- set_statement_timeout: from here to the end of the transaction, a statement that takes longer is broken off.
-- $1 so long
SELECT set_config('statement_timeout', $1::text, true);
