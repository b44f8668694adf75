//! The conditions of a measurement: without them its figures mean nothing.

use anyhow::Result;
use serde_json::{Value, json};

use crate::store::{Location, Stores, connect_redis};
use crate::{EngineKind, History, Options, session, workload};

/// The settings of PostgreSQL that decide what a commit costs.
const SETTINGS: [&str; 6] =
    ["server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"];

/// Reads them, from the server too.
pub(crate) async fn read(options: &Options, stores: &Stores) -> Result<Value> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut conditions = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "jobs": options.jobs,
        "runs": options.runs,
        "payload_bytes": workload::PAYLOAD_BYTES,
        "history": options.history == History::On,
        "callers": workload::CALLERS,
        "concurrency": options.concurrency,
        "cores": cores,
        "optimised": !cfg!(debug_assertions),
    });
    match (options.engine(), stores.url()) {
        (EngineKind::Sqlite, _) => {
            conditions["sqlite_version"] = json!(rusqlite::version());
            conditions["synchronous"] = json!(options.synchronous.name());
        }
        (EngineKind::Postgres, Some(url)) => {
            conditions["schema"] = json!(stores.prefix());
            let client = session::connect(url).await?;
            for name in SETTINGS {
                let row = client.query_one("SELECT current_setting($1)", &[&name]).await?;
                conditions[name] = json!(row.try_get::<_, String>(0)?);
            }
        }
        (EngineKind::Redis, _) => {
            // The engine asks the server about itself when it opens a namespace.
            let location = stores.new_location();
            let Location::Namespace { url, namespace } = &location else { return Ok(conditions) };
            let facts = connect_redis(url, namespace).await?.facts();
            stores.remove(&location).await?;
            conditions["server_version"] = json!(facts.version);
            conditions["appendonly"] = json!(facts.appends);
            conditions["appendfsync"] = json!(facts.syncs);
        }
        _ => {}
    }
    Ok(conditions)
}
