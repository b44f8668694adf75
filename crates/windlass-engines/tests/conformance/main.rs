//! Every behaviour of the conformance suite, on every engine.

#[cfg(feature = "postgres")]
#[path = "../schemas/mod.rs"]
mod schemas;
#[cfg(feature = "postgres")]
mod pooled;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod raw;

use std::sync::Arc;

use windlass_conformance::harness::Fixture;
use windlass_core::clock::ManualClock;
use windlass_engines::memory::MemoryEngine;

async fn in_memory() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    Fixture { engine, clock, raw: None, keep: Box::new(()) }
}

windlass_conformance::suite!(memory, in_memory);

#[cfg(feature = "sqlite")]
async fn in_sqlite() -> Fixture {
    use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

    let clock = Arc::new(ManualClock::default());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("jobs.db");
    std::fs::write(&path, fresh_sqlite_file()).expect("a new file");
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(&path, options).expect("a fresh file");
    let raw = Some(Box::new(raw::File(path)) as _);
    Fixture { engine: Arc::new(engine), clock, raw, keep: Box::new(folder) }
}

/// The contents of a new file. Copying it takes a fraction of the time that it takes to create its tables.
#[cfg(feature = "sqlite")]
fn fresh_sqlite_file() -> &'static [u8] {
    use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

    static FILE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    FILE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("jobs.db");
        drop(SqliteEngine::open(&path, SqliteOptions::default()).expect("a fresh file"));
        assert!(
            !path.with_extension("db-wal").exists(),
            "the last connection to close a file leaves nothing beside it"
        );
        std::fs::read(&path).expect("the file that was closed")
    })
}

#[cfg(feature = "sqlite")]
windlass_conformance::suite!(sqlite, in_sqlite);

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_runs_every_behaviour_and_skips_none() {
    assert_eq!(sqlite::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(sqlite::SKIPS, []);
}

/// Creates a schema of its own on the server that all tests of a run share.
#[cfg(feature = "postgres")]
async fn in_postgres() -> Fixture {
    use windlass_engines::postgres::{PostgresEngine, PostgresOptions};

    let clock = Arc::new(ManualClock::default());
    let schema = schemas::Schema::borrow().await;
    let options = PostgresOptions {
        schema: schema.name.clone(),
        clock: Some(clock.clone()),
        ..PostgresOptions::default()
    };
    let engine = PostgresEngine::connect(&schema.url(), options).await.expect("a schema");
    let raw = raw::Tables { url: schema.url(), schema: schema.name.clone() };
    let raw = Some(Box::new(raw) as _);
    Fixture { engine: Arc::new(engine), clock, raw, keep: Box::new(schema) }
}

#[cfg(feature = "postgres")]
windlass_conformance::suite!(postgres, in_postgres);

#[cfg(feature = "postgres")]
#[test]
fn postgres_runs_every_behaviour_and_skips_none() {
    assert_eq!(postgres::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(postgres::SKIPS, []);
}

/// Creates a namespace of its own on the server that all tests of a run share.
#[cfg(feature = "redis")]
async fn in_redis() -> Fixture {
    in_redis_by_scripts_of(None).await
}

/// Creates a namespace like [`in_redis`], used by the scripts for Redis 5 and 6. Newer servers run them
/// too.
#[cfg(feature = "redis")]
async fn in_redis_by_old_scripts() -> Fixture {
    in_redis_by_scripts_of(Some(6)).await
}

#[cfg(feature = "redis")]
async fn in_redis_by_scripts_of(scripts_of: Option<u32>) -> Fixture {
    use windlass_engines::redis::{RedisEngine, RedisOptions};

    let clock = Arc::new(ManualClock::default());
    let url = windlass_servers::shared::redis_url().expect("a Redis server");
    let options = RedisOptions {
        namespace: format!("suite-{:016x}", fastrand::u64(..)),
        clock: Some(clock.clone()),
        scripts_of,
        ..RedisOptions::default()
    };
    start_at_a_border(&url, &options.namespace);
    let raw = raw::Hashes { url: url.clone(), namespace: options.namespace.clone() };
    let engine = RedisEngine::connect(&url, options).await.expect("a fresh namespace");
    let raw = Some(Box::new(raw) as _);
    Fixture { engine: Arc::new(engine), clock, raw, keep: Box::new(()) }
}

/// Makes the second job of each behaviour lie in another hash than the first: code that concerns both jobs
/// must read both hashes.
#[cfg(feature = "redis")]
fn start_at_a_border(url: &str, namespace: &str) {
    let client = ::redis::Client::open(url).expect("the URL of a server");
    let mut set = ::redis::cmd("SET");
    set.arg(format!("{{{namespace}}}:sequence")).arg(99_998);
    set.exec(&mut client.get_connection().expect("a connection")).expect("a sequence");
}

#[cfg(feature = "redis")]
windlass_conformance::suite!(redis, in_redis);

#[cfg(feature = "redis")]
windlass_conformance::suite!(redis_by_old_scripts, in_redis_by_old_scripts);

#[cfg(feature = "redis")]
#[test]
fn redis_runs_every_behaviour_and_skips_none() {
    assert_eq!(redis::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(redis::SKIPS, []);
    assert_eq!(redis_by_old_scripts::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(redis_by_old_scripts::SKIPS, []);
}

/// Creates an engine made of a primary and a spool whose primary is available: its caller sees the primary.
#[cfg(feature = "fallback")]
async fn in_memory_with_a_spool() -> Fixture {
    use windlass_core::engine::Engine;
    use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions};

    let clock = Arc::new(ManualClock::default());
    let primary = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let spool = Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()));
    let connect: Connect = Arc::new(move || {
        let primary: Arc<dyn Engine> = primary.clone();
        Box::pin(async move { Ok(primary) })
    });
    let options = FallbackOptions::default();
    let engine =
        FallbackEngine::open("memory", connect, spool, options).await.expect("the primary is available");
    Fixture { engine: Arc::new(engine), clock, raw: None, keep: Box::new(()) }
}

#[cfg(feature = "fallback")]
windlass_conformance::suite!(fallback, in_memory_with_a_spool);

#[cfg(feature = "fallback")]
#[test]
fn an_engine_made_of_two_runs_every_behaviour_and_skips_none() {
    assert_eq!(fallback::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(fallback::SKIPS, []);
}

/// Without access to its texts, behaviours about them would test nothing.
#[tokio::test]
async fn every_engine_whose_store_keeps_texts_shows_them_to_the_suite() {
    #[cfg(feature = "sqlite")]
    assert!(in_sqlite().await.raw.is_some());
    #[cfg(feature = "postgres")]
    assert!(in_postgres().await.raw.is_some());
    #[cfg(feature = "redis")]
    assert!(in_redis().await.raw.is_some());
}

#[test]
fn the_same_behaviours_run_on_every_engine() {
    assert!(windlass_conformance::BEHAVIOURS.len() > 120);
    assert_eq!(memory::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(memory::SKIPS, [], "memory is the model: it has no gaps");
}

windlass_conformance::used_suite!(memory_used, in_memory, ForAllKinds);
windlass_conformance::used_suite!(memory_used_for_traces, in_memory, ForJobsThatLeaveNothing);

#[cfg(feature = "postgres")]
windlass_conformance::used_suite!(postgres_used, in_postgres, ForAllKinds);
#[cfg(feature = "postgres")]
windlass_conformance::used_suite!(postgres_used_for_traces, in_postgres, ForJobsThatLeaveNothing);

#[cfg(feature = "redis")]
windlass_conformance::used_suite!(redis_used, in_redis, ForAllKinds);
