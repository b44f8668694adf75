-- hidden_sessions: counts the sessions in this database whose queries the server hides from this role.
-- plan: cold: an operator runs the doctor
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = '<insufficient privilege>';
