//! Waits until the server has finished the work of the preparation, so that it takes no core from the
//! measured part on a small machine. Redis rewrites its append-only file in a process of its own when that
//! has doubled, and frees the store of the last scenario in another thread. PostgreSQL vacuums the enqueued
//! rows. A new PostgreSQL schema has no partitions of the history yet: the first maintenance creates them,
//! once, which takes about a tenth of a second.

use std::time::{Duration, Instant};

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client};
use anyhow::{Result, ensure};
use windlass::types::engine::Engine;
use windlass::types::limits::MAINTENANCE_BATCH_MAX;

use crate::session;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A rewrite of ten million jobs takes less.
const QUIET_WITHIN: Duration = Duration::from_secs(300);
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Lines of `INFO` about work beside the commands. Each is 0 when that work is done.
const REDIS_WORK: [&str; 4] = [
    "aof_rewrite_in_progress:",
    "aof_rewrite_scheduled:",
    "rdb_bgsave_in_progress:",
    "lazyfree_pending_objects:",
];

/// A vacuum or analyze of the tables of measurements. Without the right to see other sessions' queries, none
/// is found.
const VACUUMING: &str = "SELECT query FROM pg_stat_activity
    WHERE backend_type = 'autovacuum worker' AND datname = current_database() AND query LIKE '%windlass_bench_%' LIMIT 1";

/// Waits until Redis does nothing beside the commands. What it begins by itself later belongs to the measured
/// part.
pub(crate) async fn redis(url: &str) -> Result<()> {
    let mut connection = connect_redis(url).await?;
    let started = Instant::now();
    loop {
        let info: String = ::redis::cmd("INFO").query_async(&mut connection).await?;
        let Some(work) = redis_work(&info) else { return Ok(()) };
        wait_on(started, work).await?;
    }
}

/// Does the maintenance that a new schema needs once, and waits until no vacuum runs.
pub(crate) async fn postgres(url: &str, engine: &dyn Engine) -> Result<()> {
    engine.prune(MAINTENANCE_BATCH_MAX).await?;
    vacuum(url).await
}

/// Waits until no vacuum runs on the tables of measurements.
pub(crate) async fn vacuum(url: &str) -> Result<()> {
    let client = session::connect(url).await?;
    let started = Instant::now();
    while let Some(row) = client.query_opt(VACUUMING, &[]).await? {
        wait_on(started, row.try_get(0)?).await?;
    }
    Ok(())
}

async fn wait_on(started: Instant, work: &str) -> Result<()> {
    ensure!(
        started.elapsed() < QUIET_WITHIN,
        "expected the server to finish its work within {} s, got {work}",
        QUIET_WITHIN.as_secs()
    );
    // may sleep: the server sends no signal when it is done.
    tokio::time::sleep(POLL_INTERVAL).await;
    Ok(())
}

/// A connection beside those of the engine.
pub(crate) async fn connect_redis(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(REPLY_TIMEOUT));
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// The first line about work that goes on.
fn redis_work(info: &str) -> Option<&str> {
    let is_done = |line: &str| line.rsplit(':').next() == Some("0");
    info.lines().find(|line| REDIS_WORK.iter().any(|name| line.starts_with(name)) && !is_done(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_and_objects_to_be_freed_are_work() {
        let done = "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\nlazyfree_pending_objects:0\r\n";
        assert_eq!(redis_work(done), None);
        for work in ["aof_rewrite_in_progress:1", "rdb_bgsave_in_progress:1", "lazyfree_pending_objects:7"] {
            assert_eq!(redis_work(&format!("{done}{work}\r\nuptime:5\r\n")), Some(work));
        }
    }
}
