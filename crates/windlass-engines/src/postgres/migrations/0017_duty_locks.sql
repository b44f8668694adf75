-- Who took which lock of a duty, as noted by the session that did, by its number on the server. The lock itself is the server's: a note says
-- nothing once another session has it, or none.
CREATE TABLE windlass.duty_locks (
    duty text COLLATE "C" PRIMARY KEY,
    worker uuid NOT NULL,
    session integer NOT NULL,
    since timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Whoever may take leases may note locks, and whoever may read leases may read who has which.
DO $grants$
DECLARE
    may record;
BEGIN
    FOR may IN
        SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS who,
            bool_or(a.privilege_type = 'UPDATE') AS takes
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid = 'windlass.background_job_leases'::regclass AND a.grantee <> c.relowner
            AND a.privilege_type IN ('SELECT', 'UPDATE')
        GROUP BY 1
    LOOP
        EXECUTE format('GRANT SELECT ON windlass.duty_locks TO %s', may.who);
        IF may.takes THEN
            EXECUTE format('GRANT INSERT, UPDATE, DELETE ON windlass.duty_locks TO %s', may.who);
        END IF;
    END LOOP;
END
$grants$;
