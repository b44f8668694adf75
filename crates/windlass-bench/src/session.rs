//! Queries to PostgreSQL in sessions beside those of the engine.

use anyhow::{Context, Result};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use windlass::postgres::Address;

/// A session whose connection ends with the value.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    Ok(Address::parse(url)?.connect().await?)
}

/// How far the server's write-ahead log has come, in bytes.
pub(crate) async fn wal_position(client: &Client) -> Result<i64> {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// Bytes of the table of unfinished jobs, of its indexes, and of everything in the schema.
pub(crate) async fn sizes(client: &Client, schema: &str) -> Result<[i64; 3]> {
    let sql = "SELECT pg_table_size(j.oid), pg_indexes_size(j.oid), (
            SELECT sum(pg_total_relation_size(r.oid))::bigint FROM pg_class r
            WHERE r.relnamespace = j.relnamespace AND r.relkind = 'r'
        )
        FROM pg_class j
        WHERE j.relname = 'delayed_jobs' AND j.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)";
    let row = client.query_one(sql, &[&schema]).await?;
    Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?])
}

/// Removes a schema with everything in it, if it exists.
pub(crate) async fn drop_schema(url: &str, schema: &str) -> Result<()> {
    let client = connect(url).await?;
    let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
    // The last statement of an interrupted worker may lock the same tables in another order.
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        match client.batch_execute(&drop).await {
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
            done => return done.with_context(|| format!("dropping schema {schema}")),
        }
    }
    client.batch_execute(&drop).await.with_context(|| format!("dropping schema {schema}"))
}
