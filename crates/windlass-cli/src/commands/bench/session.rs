//! What is asked of PostgreSQL in a session of our own.

use tokio_postgres::Client;

use super::failed;
use crate::exit::{Failure, with_causes};
pub(super) use crate::store::session as connect;

/// Of a statement.
pub(super) fn refused(why: tokio_postgres::Error) -> Failure {
    failed(with_causes(&why))
}

/// How far the server's log of writes has come, in bytes.
pub(super) async fn wal_position(client: &Client) -> Result<i64, Failure> {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    client.query_one(sql, &[]).await.map_err(refused)?.try_get(0).map_err(refused)
}

/// Bytes of the table of unfinished jobs, of its indexes, and of everything in the schema.
pub(super) async fn sizes(client: &Client, schema: &str) -> Result<[i64; 3], Failure> {
    let sql = "SELECT pg_table_size(j.oid), pg_indexes_size(j.oid), (
            SELECT sum(pg_total_relation_size(r.oid))::bigint FROM pg_class r
            WHERE r.relnamespace = j.relnamespace AND r.relkind = 'r'
        )
        FROM pg_class j
        WHERE j.relname = 'delayed_jobs' AND j.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)";
    let row = client.query_one(sql, &[&schema]).await.map_err(refused)?;
    let column = |index: usize| row.try_get::<_, i64>(index).map_err(refused);
    Ok([column(0)?, column(1)?, column(2)?])
}
