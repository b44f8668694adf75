-- register: let a worker in.
-- ?1 id   ?2 host   ?3 pid   ?4 version   ?5 queues   ?6 types   ?7 duties   ?8 lease   ?9 now   ?10 expires at
INSERT INTO workers (id, host, pid, version, queues, types, duties, lease, since, beats, seen_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?9, ?10);
