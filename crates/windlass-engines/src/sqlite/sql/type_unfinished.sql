-- type_unfinished: how many jobs of each type have not ended.
SELECT type, waiting + parked + running FROM counts;
