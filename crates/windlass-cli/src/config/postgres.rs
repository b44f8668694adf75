//! The settings of `[store]` for PostgreSQL.

use windlass::postgres::PostgresOptions;

use super::database_url::DatabaseUrl;
use super::redis::RedisUrl;
use super::section::{Section, boolean, text, whole};
use super::tree::Value;

/// How a PostgreSQL server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostgresSettings {
    /// The address. If `None`, the environment's `DATABASE_URL` is used.
    pub(crate) url: Option<DatabaseUrl>,
    /// The schema of all tables.
    pub(crate) schema: String,
    /// Whether a transaction pooler stands between this process and the server.
    pub(crate) pooled: bool,
    /// Whether other processes wake this one.
    pub(crate) listen: bool,
    /// The address to listen at, if the other address leads to a pooler.
    pub(crate) listen_url: Option<DatabaseUrl>,
    /// The number of connections for work, besides one for heartbeats and one to listen.
    pub(crate) connections: usize,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        let PostgresOptions { schema, pooled, listen, connections, .. } = PostgresOptions::default();
        Self { url: None, schema, pooled, listen, listen_url: None, connections }
    }
}

const CONNECTIONS_MAX: i64 = 1_000;

pub(super) fn read(section: &mut Section<'_, '_>) -> PostgresSettings {
    let default = PostgresSettings::default();
    let connections = section.get("connections", whole(1, CONNECTIONS_MAX));
    PostgresSettings {
        url: section.get("url", url_of_postgres).flatten(),
        schema: section.get("schema", schema).unwrap_or(default.schema),
        pooled: section.get("pooled", boolean).unwrap_or(default.pooled),
        listen: section.get("listen", boolean).unwrap_or(default.listen),
        listen_url: section.get("listen_url", url),
        connections: connections.and_then(|n| usize::try_from(n).ok()).unwrap_or(default.connections),
    }
}

/// The URL, unless it leads to Redis.
fn url_of_postgres(value: &Value) -> Result<Option<DatabaseUrl>, String> {
    if RedisUrl::is_meant_by(&text(value)?) { Ok(None) } else { url(value).map(Some) }
}

fn url(value: &Value) -> Result<DatabaseUrl, String> {
    DatabaseUrl::parse(&text(value)?)
}

fn schema(value: &Value) -> Result<String, String> {
    let options = PostgresOptions { schema: text(value)?, ..PostgresOptions::default() };
    options.check().map_err(|why| why.to_string())?;
    Ok(options.schema)
}
