//! The look-ahead for the next due job, and what happens to claims where a scan takes long or fails.

use std::time::Duration;

use windlass_core::claim::ClaimAnswer;
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::engine::{Declaration, Engine, Hint};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::TypeName;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::PostgresEngine;

use super::fairness_keys::counting_server;
use super::waking::{far_ahead, producer, until_marked};
use super::{
    TestStore, WORKER, card, claim, claim_request, claimed, declare, enqueue, on_a_clock, queue, request,
    server,
};

/// Creates a place whose owner calls a function for every row of a job that it reads. The function knows
/// the statement that reads.
fn watched(what_it_does: &str) -> TestStore {
    let place = TestStore::on(server().url());
    let role = format!("owner_{}", place.schema);
    place.sql(&format!("CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE postgres TO {role}"));
    let place = TestStore { url: place.url.replace("postgres@", &format!("{role}@")), ..place };
    place.sql(&format!(
        "CREATE SCHEMA {0} AUTHORIZATION {role};
         CREATE FUNCTION windlass.watch() RETURNS boolean LANGUAGE plpgsql AS
         $watch$ BEGIN {what_it_does} RETURN true; END $watch$",
        place.schema
    ));
    place
}

fn watch(place: &TestStore) {
    place.sql(
        "ALTER TABLE windlass.delayed_jobs ENABLE ROW LEVEL SECURITY;
         ALTER TABLE windlass.delayed_jobs FORCE ROW LEVEL SECURITY;
         CREATE POLICY watched ON windlass.delayed_jobs USING (windlass.watch())",
    );
}

#[tokio::test]
async fn a_claim_that_cannot_look_ahead_hands_out_what_it_has_claimed_and_so_does_its_repeat() {
    let place = watched("IF current_query() LIKE '-- scan_ahead:%' THEN RAISE EXCEPTION 'not now'; END IF;");
    let engine = place.ready().await;
    watch(&place);
    // There are due and future jobs, so that the look-ahead would find some.
    let later = NewJob { when: When::In(Duration::from_secs(60)), ..super::new_job() };
    engine.enqueue(request(vec![later])).await.unwrap();
    let ids = enqueue(&engine, 3).await;
    let asked = claim_request(WORKER, 2);
    let ClaimAnswer::Claimed { jobs, peek } = engine.claim(asked.clone()).await.unwrap() else { panic!() };
    assert_eq!(jobs.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), ids[..2]);
    assert!(peek.more_due, "a worker that cannot look ahead claims again");
    let again = windlass_core::claim::ClaimRequest { repeat: true, ..asked };
    assert_eq!(claimed(engine.claim(again).await.unwrap()).len(), 2, "a lost answer is requested again");
    assert_eq!(claim(&engine, 5).await.len(), 1);
    assert!(engine.claim(claim_request(WORKER, 5)).await.is_err(), "an error loses nothing now");
}

/// The case of an old transaction, for example; here each scan sleeps.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_gives_back_is_claimed_at_once_also_where_looks_take_long() {
    let place = watched("IF current_query() LIKE '-- scan:%' THEN PERFORM pg_sleep(0.01); END IF;");
    let other = producer(&place).await;
    declare(&other).await;
    let elsewhere = WorkerId::from_random(0xb0b);
    other.register(card(elsewhere)).await.unwrap();
    enqueue(&other, 2).await;
    let mut held = claimed(other.claim(claim_request(elsewhere, 2)).await.unwrap());
    watch(&place);
    let (waits, hints) = far_ahead(&place).await;
    for what in ["by a scan, which takes long", "by the notes of the processes that requeued"] {
        let back = held.remove(0).settled(Transition::Release { started: false }, AttemptReport::default());
        other.settle(vec![back]).await.unwrap();
        hints.wait_for(&Hint::Queue(queue()));
        assert_eq!(claim(&waits, 5).await.len(), 1, "{what}");
        until_marked(&place, 1);
    }
}

fn another() -> TypeName {
    TypeName::parse("another").unwrap()
}

/// Inserts many jobs of a type that this worker does not handle, from an hour on, a second apart.
fn insert_others(place: &TestStore, count: usize) {
    place.sql(&format!(
        "INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload)
         SELECT nextval('windlass.job_ids'), timestamptz '2026-01-01T01:00:00Z' + n * interval '1 second', now(), 5, 'main', 'another', '{{}}'
         FROM generate_series(0, {count} - 1) AS n; ANALYZE windlass.delayed_jobs"
    ));
}

async fn peek(engine: &PostgresEngine) -> Option<Duration> {
    let ahead = engine.peek(&[queue()], &[super::kind()]).await.unwrap();
    ahead.first().and_then(|(_, peek)| peek.next_due_in)
}

#[tokio::test]
async fn where_thousands_of_others_stand_in_front_a_look_reads_some_and_says_when_to_look_again() {
    let (_server, place) = counting_server();
    let (engine, clock) = on_a_clock(&place).await;
    let types = vec![TypeSpec::new(another(), queue())];
    engine.declare(Declaration { queues: Vec::new(), types }).await.unwrap();
    insert_others(&place, 50_000);
    let read = "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0) FROM pg_stat_statements WHERE query LIKE '-- scan_ahead:%'";
    let before: u64 = place.sql(read).parse().unwrap();
    assert_eq!(peek(&engine).await, Some(Duration::from_secs(3600 + 999)));
    let read: u64 = place.sql(read).parse::<u64>().unwrap() - before;
    let pages: u64 = place.sql("SELECT pg_relation_size('windlass.delayed_jobs') / 8192").parse().unwrap();
    assert!(read > 0 && read * 4 < pages, "{read} pages were read of {pages}");
    // After the thousandth job, the look-ahead continues from its due time.
    let ours = NewJob { when: When::At(after(&*clock, 3600 + 1500)), ..super::new_job() };
    let id = engine.enqueue(request(vec![ours])).await.unwrap()[0].job().unwrap();
    clock.advance(Duration::from_secs(3600 + 999));
    assert_eq!(peek(&engine).await, Some(Duration::from_secs(501)));
    clock.advance(Duration::from_secs(501));
    assert_eq!(claim(&engine, 5).await.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [id]);
}

fn after(clock: &dyn Clock, seconds: u64) -> Timestamp {
    clock.now().plus(Duration::from_secs(seconds))
}
