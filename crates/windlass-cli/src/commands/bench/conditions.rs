//! Under which conditions figures were measured: without them they mean nothing.

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::bed::Bed;
use super::{BenchArgs, BenchEngine, History, load, session};
use crate::exit::Failure;

pub(super) async fn read(args: &BenchArgs, bed: &Bed) -> Result<Value, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut conditions = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "jobs": args.jobs,
        "runs": args.runs,
        "payload_bytes": load::PAYLOAD_BYTES,
        "history": args.history == History::On,
        "callers": load::CALLERS,
        "concurrency": args.concurrency,
        "cores": cores,
        "optimised": !cfg!(debug_assertions),
    });
    match (args.engine(), bed.server()) {
        (BenchEngine::Sqlite, _) => {
            conditions["sqlite_version"] = json!(rusqlite::version());
            conditions["synchronous"] = json!(args.synchronous());
        }
        (BenchEngine::Postgres, Some((url, prefix))) => {
            conditions["schema"] = json!(prefix);
            settings(&session::connect(url).await?, &mut conditions).await?;
        }
        _ => {}
    }
    Ok(conditions)
}

/// The server's own settings that decide what a commit costs.
async fn settings(client: &Client, conditions: &mut Value) -> Result<(), Failure> {
    const SETTINGS: [&str; 6] = [
        "server_version",
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "shared_buffers",
        "max_wal_size",
    ];
    for name in SETTINGS {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).await.map_err(session::refused)?;
        conditions[name] = json!(row.try_get::<_, String>(0).map_err(session::refused)?);
    }
    Ok(())
}
