-- mark_triggers: a waiting job was put off, and triggers that it held are marked.
-- $1 its number
SELECT windlass.mark_put_off($1::bigint);
