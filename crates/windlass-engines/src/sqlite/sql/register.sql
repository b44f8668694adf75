-- register: registers a worker.
-- ?1 id   ?2 host   ?3 pid   ?4 version   ?5 queues   ?6 types   ?7 duties   ?8 slots   ?9 lease   ?10 now
-- ?11 expires at
INSERT INTO workers (id, host, pid, version, queues, types, duties, slots, lease, since, beats, seen_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?10, ?11);
