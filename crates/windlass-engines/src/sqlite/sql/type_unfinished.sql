-- type_unfinished: counts the jobs of each type that have not ended.
SELECT type, waiting + parked + running FROM counts;
