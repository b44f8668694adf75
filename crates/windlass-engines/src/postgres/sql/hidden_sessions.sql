-- hidden_sessions: how many sessions in this database the server tells this role nothing of.
-- plan: cold: a person asks the doctor
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = '<insufficient privilege>';
