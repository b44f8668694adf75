-- add_count_minute: adds the changes of one transaction to the count of jobs of a queue that fall due in
-- one minute.
-- ?1 queue   ?2 minute   ?3 how many more
INSERT INTO count_minutes VALUES (?1, ?2, ?3)
ON CONFLICT (queue, minute) DO UPDATE SET n = n + excluded.n;
