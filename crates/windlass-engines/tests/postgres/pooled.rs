//! PgBouncer in transaction mode, where a session belongs to no client. The conformance suite, which runs
//! behind a pooler too (`tests/conformance/pooled.rs`), covers the calls of an engine; these tests cover
//! the rest.

use std::sync::Arc;
use std::time::Duration;

use windlass_conformance::history::{FaultKind, Rules, check};
use windlass_core::engine::Engine;
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::{pgbouncer, postgres};

use super::listening::{Pair, blind, until_listening};
use super::workers::Workers;
use super::{TestStore, claim, enqueue, make_ready, server};

/// Creates a database behind a pooler that has at most this number of connections to it.
fn behind_a_pooler(pool_size: u32) -> (TestStore, pgbouncer::Server) {
    let database = server().create_database(&format!("pooled_{:016x}", fastrand::u64(..))).unwrap();
    let options = pgbouncer::Options { pool_size, ..pgbouncer::Options::default() };
    let pooler = pgbouncer::Server::start(&database, &options).unwrap();
    (TestStore { url: pooler.url(), ..TestStore::on(database) }, pooler)
}

fn pooled(place: &TestStore) -> PostgresOptions {
    PostgresOptions { pooled: true, ..place.options() }
}

async fn ready(place: &TestStore, options: PostgresOptions) -> PostgresEngine {
    let engine = place.open_with(options).await;
    make_ready(&engine).await;
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_leaves_nothing_behind_in_the_session_that_the_next_caller_gets() {
    let (place, _pooler) = behind_a_pooler(1);
    let engine = ready(&place, pooled(&place)).await;
    enqueue(&engine, 3).await;
    let ends = claim(&engine, 3).await.into_iter();
    let ends = ends.map(|one| one.settled(Transition::Succeed { result: None }, AttemptReport::default()));
    assert_eq!(engine.settle(ends.collect()).await.unwrap(), [Settled::Applied; 3]);
    // Locks are listed for the whole server, on which other tests hold some.
    let left = "SELECT (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database
            WHERE locktype = 'advisory' AND datname = current_database()),
        (SELECT count(*) FROM pg_settings WHERE source = 'session' AND name LIKE ANY (ARRAY['enable%', '%timeout', 'search_path']))";
    assert_eq!(postgres::psql(&place.url, left).unwrap(), "0|0|0");
    let ours = "SELECT count(DISTINCT pid) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'";
    assert_eq!(postgres::psql(&place.url, ours).unwrap(), "1", "all statements ran in one session");
}

/// Without our settings, a claim is compiled for longer than half a second before it runs.
#[tokio::test(flavor = "multi_thread")]
async fn every_statement_has_our_settings_where_no_session_is_ours() {
    let (place, _pooler) = behind_a_pooler(1);
    let engine = ready(&place, pooled(&place)).await;
    place.sql(
        "CREATE TABLE windlass.seen (what text, settings text);
         CREATE FUNCTION windlass.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO windlass.seen SELECT TG_OP, string_agg(current_setting(name), ' ' ORDER BY name)
             FROM unnest(ARRAY['enable_seqscan', 'jit', 'lock_timeout', 'statement_timeout']) AS name;
             RETURN NULL;
         END $$;
         CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON windlass.delayed_jobs
             FOR EACH STATEMENT EXECUTE FUNCTION windlass.see()",
    );
    enqueue(&engine, 1).await;
    let end = claim(&engine, 1).await.remove(0);
    let end = end.settled(Transition::Succeed { result: None }, AttemptReport::default());
    assert_eq!(engine.settle(vec![end]).await.unwrap(), [Settled::Applied]);
    let seen = place.sql("SELECT DISTINCT what, settings FROM windlass.seen ORDER BY what");
    assert_eq!(seen, "DELETE|off off 5s 30s\nINSERT|off off 5s 30s\nUPDATE|off off 5s 30s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_with_an_address_of_its_own_wakes_an_engine_behind_a_pooler() {
    let (place, _pooler) = behind_a_pooler(3);
    let listen_url = Some(place.direct.clone());
    let waits = ready(&place, PostgresOptions { listen_url, periods: blind(), ..pooled(&place) }).await;
    until_listening(&place);
    Pair::new(waits, place.open_with(pooled(&place)).await).assert_wakes(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_listener_work_is_found_behind_a_pooler_by_looking() {
    let (place, _pooler) = behind_a_pooler(3);
    let waits = ready(&place, pooled(&place)).await;
    let pair = Pair::new(waits, place.open_with(pooled(&place)).await);
    pair.assert_finds().await;
    let listeners =
        place.count("pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()");
    assert_eq!(listeners, 0, "a listener behind a pooler would receive nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_is_killed_under_load_loses_nothing_and_ends_nothing_twice() {
    let (place, mut pooler) = behind_a_pooler(3);
    let first = ready(&place, pooled(&place)).await;
    let engines = [Arc::new(first), Arc::new(place.open_with(pooled(&place)).await)];
    let mut workers = Workers::new(Duration::from_secs(20));
    for engine in &engines {
        workers.producer(engine.clone(), Duration::from_millis(2));
        workers.worker(engine.clone());
        workers.worker(engine.clone());
        workers.rescuer(engine.clone());
    }
    for _ in 0..3 {
        workers.let_work(50).await;
        workers
            .shared_ledger
            .fault(FaultKind::StoreAway, || tokio::task::block_in_place(|| pooler.restart().unwrap()));
    }
    workers.let_work(50).await;
    let verdict = check(&workers.end(&*engines[0], || ()).await, &Rules::default());
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.jobs >= 200, "a run worth checking: {verdict}");
}
