-- A job that is put off by its key may get the empty share: whoever may do the one may write the other.
DO $grants$
DECLARE
    may record;
BEGIN
    FOR may IN
        SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS who
        FROM pg_attribute c CROSS JOIN LATERAL aclexplode(c.attacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.attrelid = 'windlass.delayed_jobs'::regclass AND c.attname = 'options' AND a.privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT UPDATE (fairness_key) ON windlass.delayed_jobs TO %s', may.who);
    END LOOP;
END
$grants$;
