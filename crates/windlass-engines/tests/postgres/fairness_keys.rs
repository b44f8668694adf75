//! Fairness keys on PostgreSQL: jobs that other processes enqueue are noticed, and dead rows do not make
//! claims slower with time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use windlass_core::claim::Claimed;
use windlass_core::engine::Engine;
use windlass_core::enqueue::NewJob;
use windlass_core::names::FairnessKey;
use windlass_core::priority::Priority;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_engines::postgres::PostgresEngine;
use windlass_servers::postgres::{Options, Server};

use super::{TestStore, WAIT_MAX, claim, enqueue, eventually, new_job, on_a_clock, quick, request, session};

fn of(fairness_key: &str) -> NewJob {
    NewJob { fairness_key: Some(FairnessKey::parse(fairness_key).unwrap()), ..new_job() }
}

async fn put(engine: &PostgresEngine, fairness_key: &str, count: usize) {
    for part in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let answers = engine.enqueue(request(vec![of(fairness_key); part.len()])).await.unwrap();
        assert!(answers.iter().all(|answer| answer.job().is_ok()));
    }
}

fn has(claimed: &[Claimed], fairness_key: &str) -> bool {
    claimed
        .iter()
        .any(|claimed| claimed.job.fairness_key.as_ref().is_some_and(|of| of.as_str() == fairness_key))
}

async fn succeed(engine: &PostgresEngine, claimed: Vec<Claimed>) {
    let end =
        |claimed: Claimed| claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    engine.settle(claimed.into_iter().map(end).collect()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fairness_keys_of_other_processes_are_noticed_by_the_look() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    assert_eq!(claim(&engine, 1).await, [], "from now on the engine scans this queue");
    for (fairness_key, count) in [("a", 40), ("b", 1)] {
        place.sql(&format!(
            "SELECT windlass.enqueue('work', fairness_key => '{fairness_key}') FROM generate_series(1, {count})"
        ));
    }
    eventually("the queue says that it has fairness keys", || {
        (place.count("windlass.queues WHERE fairness_keys_since IS NOT NULL") == 1).then_some(())
    });
    assert!(has(&claim(&engine, 2).await, "b"), "the fairness keys take turns");
}

#[tokio::test]
async fn a_fairness_key_that_another_process_puts_in_gets_its_turn_while_others_have_plenty() {
    let place = TestStore::shared();
    let (engine, other) = (place.ready().await, place.open().await);
    put(&engine, "a", 900).await;
    assert!(has(&claim(&engine, 1).await, "a"));
    put(&other, "b", 1).await;
    let start = Instant::now();
    while !has(&claim(&engine, 1).await, "b") {
        assert!(start.elapsed() < WAIT_MAX, "no job of b was claimed");
    }
    assert!(place.count("windlass.delayed_jobs WHERE locked_at IS NULL") > 0, "a still has many jobs");
}

#[tokio::test]
async fn a_queue_that_has_had_no_fairness_keys_for_long_takes_no_turns() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    put(&engine, "a", 1).await;
    enqueue(&engine, 1).await;
    let fairness_keys = |of: &str| place.sql(&format!("SELECT count({of}) FROM windlass.queues"));
    assert_eq!(fairness_keys("fairness_keys_since"), "1");
    assert_eq!(
        place.sql("SELECT string_agg(fairness_key, ',' ORDER BY id) FROM windlass.delayed_jobs"),
        "a,"
    );
    clock.advance(Duration::from_secs(2 * 60 * 60));
    engine.prune(100).await.unwrap();
    assert_eq!(fairness_keys("fairness_keys_since"), "1", "one waits");
    let done = claim(&engine, 10).await;
    succeed(&engine, done).await;
    engine.prune(100).await.unwrap();
    assert_eq!(fairness_keys("fairness_keys_since"), "0");
    enqueue(&engine, 1).await;
    assert_eq!(place.sql("SELECT fairness_key IS NULL FROM windlass.delayed_jobs"), "t");
    assert_eq!(claim(&engine, 10).await.len(), 1);
}

/// Starts a server of its own, because an old transaction keeps the dead rows of all tests. The server
/// counts what each statement reads.
pub(super) fn counting_server() -> (Server, TestStore) {
    let settings = vec![("shared_preload_libraries".to_owned(), "pg_stat_statements".to_owned())];
    let server = Server::start(&Options { settings, ..quick() }).unwrap();
    let place = TestStore::on(server.url());
    place.sql("CREATE EXTENSION pg_stat_statements");
    (server, place)
}

/// Counts the pages that claims by fairness keys have read so far. Only claims count: the reads of scans
/// depend on the time, and on a busy machine all takes longer and so is scanned more often.
fn pages_read_by_claims(place: &TestStore) -> i64 {
    let text = "SELECT sum(shared_blks_hit + shared_blks_read) FROM pg_stat_statements WHERE query LIKE '-- claim_fairness_keys:%'";
    place.sql(text).parse().unwrap_or(0)
}

/// Returns what claims of `limit` jobs have read in each quarter of all jobs, under an old transaction.
async fn read_by_quarters(place: &TestStore, fairness_keys: &[(&str, usize)], limit: u32) -> Vec<i64> {
    let engine = place.ready().await;
    let old = session(&place.direct).await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    for (fairness_key, count) in fairness_keys {
        put(&engine, fairness_key, *count).await;
    }
    let all: usize = fairness_keys.iter().map(|(_, count)| count).sum();
    let mut marks = vec![0];
    let mut ids = BTreeSet::new();
    for _ in 0..4 {
        while ids.len() < all * marks.len() / 4 {
            let jobs = claim(&engine, limit).await;
            assert!(!jobs.is_empty(), "there are more jobs");
            ids.extend(jobs.iter().map(|claimed| claimed.job.id));
            succeed(&engine, jobs).await;
        }
        marks.push(pages_read_by_claims(place));
    }
    old.batch_execute("COMMIT").await.unwrap();
    let read: Vec<_> = marks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    println!("each quarter has read: {read:?}");
    assert!(read[0] > 0, "the reads of claims are counted");
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_an_old_transaction_the_last_claims_of_a_fairness_key_read_no_more_than_the_first() {
    let (_server, place) = counting_server();
    let read = read_by_quarters(&place, &[("big", 20_000), ("small", 10)], 100).await;
    assert!(read[3] < read[0] * 4, "each quarter has read: {read:?}");
}

/// All jobs of one fairness key are older than all jobs of the other, so the oldest waiting job lies before
/// every job of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_an_old_transaction_a_fairness_key_is_not_read_again_because_another_has_older_jobs() {
    let (_server, place) = counting_server();
    let read = read_by_quarters(&place, &[("old", 10_000), ("young", 10_000)], 40).await;
    assert!(read[3] < read[0] * 4, "each quarter has read: {read:?}");
}

/// The fairness key has been read far past the job, and the job is not the oldest that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_committed_late_is_found_in_its_line_while_others_have_plenty() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    put(&engine, "a", 5_000).await;
    let late = session(&place.direct).await;
    let text = format!("BEGIN; SELECT {}.enqueue('work', fairness_key => 'b')", place.schema);
    late.batch_execute(&text).await.unwrap();
    put(&engine, "b", 5_000).await;
    for _ in 0..30 {
        assert_eq!(claim(&engine, 100).await.len(), 100);
    }
    late.batch_execute("COMMIT").await.unwrap();
    let first =
        place.sql("SELECT min(id) FROM windlass.delayed_jobs WHERE fairness_key = 'b' AND locked_at IS NULL");
    let start = Instant::now();
    while !claim(&engine, 2).await.iter().any(|claimed| claimed.job.id.0.to_string() == first) {
        assert!(start.elapsed() < WAIT_MAX, "the late job was never claimed");
    }
    assert!(
        place.count("windlass.delayed_jobs WHERE locked_at IS NULL") > 0,
        "other fairness keys still have many jobs"
    );
}

#[tokio::test]
async fn a_claim_of_one_passes_by_hundreds_of_lines_that_another_process_has_used_up() {
    let place = TestStore::shared();
    let (engine, other) = (place.ready().await, place.open().await);
    assert_eq!(
        claim(&engine, 1).await,
        [],
        "from now on the engine remembers the fairness keys of this queue"
    );
    let jobs: Vec<_> = (0..300).map(|n| of(&format!("s{n:03}"))).collect();
    engine.enqueue(request(jobs)).await.unwrap();
    assert_eq!(claim(&other, 400).await.len(), 300);
    let less = NewJob { priority: Some(Priority::LEAST_URGENT), ..new_job() };
    other.enqueue(request(vec![new_job(), less])).await.unwrap();
    assert_eq!(claim(&engine, 1).await.len(), 1);
    assert_eq!(claim(&engine, 1).await.len(), 1, "and of the next priority");
}

#[tokio::test]
async fn a_process_that_knows_no_fairness_keys_claims_in_plain_order_and_leaves_no_job_behind() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    put(&engine, "a", 3).await;
    // Inserts jobs like those that were enqueued before the queue had fairness keys: they have none.
    place.sql(
        "INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload)
         SELECT nextval('windlass.job_ids'), now(), now(), 5, 'main', 'work', '{}' FROM generate_series(1, 5)",
    );
    let mut claimed = 0;
    while let Some(jobs) = Some(claim(&engine, 3).await).filter(|jobs| !jobs.is_empty()) {
        claimed += jobs.len();
    }
    assert_eq!(claimed, 8);
    assert_eq!(place.count("windlass.delayed_jobs WHERE locked_at IS NULL"), 0);
}
