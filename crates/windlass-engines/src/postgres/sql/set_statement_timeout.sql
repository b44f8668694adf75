-- set_statement_timeout: cancels each statement that takes longer than this, until the end of the
-- transaction.
-- $1 the timeout
SELECT set_config('statement_timeout', $1::text, true);
