//! Under which conditions figures were measured: without them they mean nothing.

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::fixture::{Fixture, in_namespace};
use super::{BenchArgs, BenchEngine, History, load, session};
use crate::exit::Failure;
use crate::store::connect_redis;

/// A namespace that is opened only to ask the server about itself.
const FACTS: &str = "windlass_bench_facts";

pub(super) async fn read(args: &BenchArgs, fixture: &Fixture) -> Result<Value, Failure> {
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
    match (args.engine(), fixture.server()) {
        (BenchEngine::Sqlite, _) => {
            conditions["sqlite_version"] = json!(rusqlite::version());
            conditions["synchronous"] = json!(args.synchronous());
        }
        (BenchEngine::Postgres, Some((url, prefix))) => {
            conditions["schema"] = json!(prefix);
            settings(&session::connect(url).await?, &mut conditions).await?;
        }
        (BenchEngine::Redis, _) => {
            let Some(url) = fixture.redis() else { return Ok(conditions) };
            let engine = connect_redis(url, in_namespace(FACTS)).await?;
            let facts = engine.facts().clone();
            engine.erase().await?;
            conditions["server_version"] = json!(facts.version);
            conditions["appendonly"] = json!(facts.appends);
            conditions["appendfsync"] = json!(facts.syncs);
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
