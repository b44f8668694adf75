-- Who may call what. Functions that make and drop the days of the history run as the owner, and whoever names the day
-- could drop all of it: the owner says who may, as for those that are called in somebody's own transaction.
REVOKE EXECUTE ON FUNCTION windlass.create_partitions, windlass.drop_partitions FROM PUBLIC;
