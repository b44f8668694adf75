//! Before the measured part, the server ends what was begun before it. Redis rewrites its append-only file in a process of its
//! own once that has doubled, which ten times as many jobs do a few times, and frees the store of the last scenario in another
//! thread. PostgreSQL vacuums what was put in. On a small machine each takes a core from whatever is measured next, at one time
//! and not at another. And a schema that was made a moment ago has no days of the history yet: the first process that does
//! maintenance there makes them, once, which takes about a tenth of a second.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use windlass_core::engine::Engine;
use windlass_core::limits::MAINTENANCE_BATCH_MAX;

use super::failed;
use super::session::{connect as connect_postgres, refused};
use crate::config::{DatabaseUrl, RedisUrl};
use crate::exit::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So long a rewrite of ten million jobs may take, with room to spare.
const REST_WITHIN: Duration = Duration::from_secs(300);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What `INFO` says of work that goes on beside the commands. It is 0 when that is done.
const AT_WORK: [&str; 4] = [
    "aof_rewrite_in_progress:",
    "aof_rewrite_scheduled:",
    "rdb_bgsave_in_progress:",
    "lazyfree_pending_objects:",
];

/// Who cleans up behind the preparation, or counts what it has brought. With no right to see it, nobody is seen; and other tables of
/// the database may be as large as they like.
const VACUUMING: &str = "SELECT query FROM pg_stat_activity
    WHERE backend_type = 'autovacuum worker' AND datname = current_database() AND query LIKE '%windlass_bench_%' LIMIT 1";

/// Waits until the server has nothing left to do. What it begins by itself later belongs to the measured part.
pub(super) async fn of_redis(url: &RedisUrl) -> Result<(), Failure> {
    let mut connection = connect(url).await?;
    let started = Instant::now();
    while let Some(work) = at_work(&mut connection).await? {
        look_again(started, &work).await?;
    }
    Ok(())
}

/// Does the maintenance that a fresh schema needs once, and waits until nobody vacuums.
pub(super) async fn of_postgres(url: &DatabaseUrl, engine: &dyn Engine) -> Result<(), Failure> {
    engine.prune(MAINTENANCE_BATCH_MAX).await?;
    from_vacuum(url).await
}

/// Waits until nobody vacuums the tables of measurements.
pub(super) async fn from_vacuum(url: &DatabaseUrl) -> Result<(), Failure> {
    let client = connect_postgres(url).await?;
    let started = Instant::now();
    while let Some(row) = client.query_opt(VACUUMING, &[]).await.map_err(refused)? {
        look_again(started, row.try_get(0).map_err(refused)?).await?;
    }
    Ok(())
}

async fn look_again(started: Instant, work: &str) -> Result<(), Failure> {
    if started.elapsed() > REST_WITHIN {
        let seconds = REST_WITHIN.as_secs();
        return Err(failed(format!("expected the server to be at rest within {seconds} s, got {work}")));
    }
    // may sleep: the server tells nobody when it is done.
    tokio::time::sleep(LOOK_EVERY).await;
    Ok(())
}

/// A connection of our own, to ask the server about itself.
pub(super) async fn connect(url: &RedisUrl) -> Result<MultiplexedConnection, Failure> {
    let client = Client::open(url.secret()).map_err(failed)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_WITHIN));
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)
}

/// What the server is still at.
async fn at_work(connection: &mut MultiplexedConnection) -> Result<Option<String>, Failure> {
    let info: String = redis::cmd("INFO").query_async(connection).await.map_err(failed)?;
    Ok(first_at_work(&info).map(str::to_owned))
}

fn first_at_work(info: &str) -> Option<&str> {
    let is_done = |line: &str| line.rsplit(':').next() == Some("0");
    info.lines().find(|line| AT_WORK.iter().any(|name| line.starts_with(name)) && !is_done(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_or_what_is_still_to_be_freed_is_no_rest() {
        let at_rest =
            "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\nlazyfree_pending_objects:0\r\n";
        assert_eq!(first_at_work(at_rest), None);
        for work in ["aof_rewrite_in_progress:1", "rdb_bgsave_in_progress:1", "lazyfree_pending_objects:7"] {
            assert_eq!(first_at_work(&format!("{at_rest}{work}\r\nuptime:5\r\n")), Some(work));
        }
    }
}
