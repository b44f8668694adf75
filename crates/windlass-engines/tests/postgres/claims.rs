//! What claims hold is known at every moment, without an index that each claim must write for every job.

use std::time::Duration;

use windlass_core::admin::ListRequest;
use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::PostgresEngine;

use super::workers::words::{card, claim_request, kind, queue, request};
use super::{TestStore, WORKER, claim, claimed, enqueue, on_a_clock, rescue, session};

fn succeed(claimed: Claimed) -> Settlement {
    claimed.settled(Transition::Succeed { result: None }, AttemptReport::default())
}

async fn held(engine: &PostgresEngine) -> u64 {
    engine.workers().await.unwrap().iter().map(|worker| worker.running).sum()
}

async fn running(engine: &PostgresEngine) -> Vec<JobId> {
    let request = ListRequest { job_state: Some(JobState::Running), limit: 100, ..ListRequest::default() };
    engine.list(request).await.unwrap().iter().map(|record| record.job.id).collect()
}

fn open_claims(place: &TestStore) -> u64 {
    place.count("windlass.claims WHERE jobs IS NOT NULL")
}

#[tokio::test]
async fn a_claim_writes_rows_beside_the_old_ones_and_into_no_index() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let payload = Payload::parse(&format!(r#"{{"text": "{}"}}"#, "x".repeat(90))).unwrap();
    let job = NewJob { payload, ..super::new_job() };
    engine.enqueue(request(vec![job; 500])).await.unwrap();
    let pages = "SELECT string_agg((ctid::text::point)[0]::text, ',' ORDER BY id) FROM windlass.delayed_jobs";
    let before = place.sql(pages);
    let indexes = "SELECT sum(pg_relation_size(indexrelid)) FROM pg_index WHERE indrelid = 'windlass.delayed_jobs'::regclass";
    let size = place.sql(indexes);
    for _ in 0..5 {
        assert_eq!(claim(&engine, 100).await.len(), 100);
    }
    assert_eq!(place.sql(pages), before, "every row stays in its page");
    assert_eq!(place.sql(indexes), size);
    // The columns that indexes use, as their keys and in their predicates.
    let columns = "SELECT string_agg(DISTINCT a.attname::text, ',' ORDER BY a.attname::text) FROM pg_depend d
        JOIN pg_index i ON i.indexrelid = d.objid AND d.classid = 'pg_class'::regclass
        JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.refobjid = 'windlass.delayed_jobs'::regclass AND i.indrelid = d.refobjid";
    let found = place.sql(columns);
    assert!(found.contains("scheduled_at") && found.contains("gate"), "{found}");
    for changed in ["locked_at", "locked_by", "token", "attempts", "boosted"] {
        assert!(
            !found.split(',').any(|column| column == changed),
            "{changed} is changed by every claim: {found}"
        );
    }
}

#[tokio::test]
async fn what_a_worker_holds_is_told_at_once_and_a_sweep_forgets_what_has_ended() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let ids = enqueue(&engine, 5).await;
    let mut jobs = claim(&engine, 3).await;
    jobs.extend(claim(&engine, 2).await);
    assert_eq!((held(&engine).await, open_claims(&place)), (5, 2));
    let last = jobs.pop().unwrap();
    assert_eq!(engine.settle(jobs.into_iter().map(succeed).collect()).await.unwrap().len(), 4);
    assert_eq!(held(&engine).await, 1, "before any sweep");
    assert_eq!(running(&engine).await, [ids[4]]);
    engine.sweep(100).await.unwrap();
    assert_eq!((held(&engine).await, open_claims(&place)), (1, 1));
    assert_eq!(place.count("windlass.claim_ends"), 0);
    engine.settle(vec![succeed(last)]).await.unwrap();
    engine.sweep(100).await.unwrap();
    assert_eq!((held(&engine).await, open_claims(&place)), (0, 0));
}

#[tokio::test]
async fn every_way_out_of_a_claim_is_counted() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let error = || JobError::new(ErrorKind::Failed, "odd");
    let ways = [
        Transition::Succeed { result: None },
        Transition::Retry { after: Duration::ZERO, error: error() },
        Transition::Bury { error: error() },
        Transition::Cancel { why: "enough".to_owned() },
        Transition::Snooze { after: Duration::from_secs(60) },
        Transition::Park { gate: Gate::named("closed") },
        Transition::Release { started: true },
    ];
    let count = ways.len();
    enqueue(&engine, count).await;
    let jobs = claim(&engine, count.try_into().unwrap()).await;
    for (left, (job, way)) in (0..count as u64).rev().zip(jobs.into_iter().zip(ways)) {
        let what = format!("{way:?}");
        assert_eq!(
            engine.settle(vec![job.settled(way, AttemptReport::default())]).await.unwrap(),
            [Settled::Applied]
        );
        assert_eq!(held(&engine).await, left, "{what}");
    }
    engine.sweep(100).await.unwrap();
    assert_eq!(open_claims(&place), 0);
}

#[tokio::test]
async fn two_who_end_jobs_of_one_claim_do_not_wait_for_each_other() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let mut jobs = claim(&engine, 2).await;
    let (first, second) = (jobs.remove(0), jobs.remove(0));
    let their = session(&place.url).await;
    let complete = format!("BEGIN; SELECT {}.complete({}, '{}')", place.schema, first.job.id.0, first.token);
    their.batch_execute(&complete).await.unwrap();
    let settling = engine.settle(vec![succeed(second)]);
    let settled = tokio::time::timeout(super::WAIT_MAX, settling).await.expect("no session blocks it");
    assert_eq!(settled.unwrap(), [Settled::Applied]);
    engine.sweep(100).await.unwrap();
    assert_eq!(held(&engine).await, 1, "the first may still be rolled back");
    their.batch_execute("COMMIT").await.unwrap();
    assert_eq!(held(&engine).await, 0);
}

#[tokio::test]
async fn what_a_dead_worker_still_held_is_taken_back_and_nothing_else() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let ids = enqueue(&engine, 5).await;
    let mut jobs = claim(&engine, 5).await;
    let ended = jobs.drain(..3).map(succeed).collect();
    engine.settle(ended).await.unwrap();
    assert_eq!(rescue(&engine, &clock).await, ids[3..]);
    assert_eq!(place.sql("SELECT held FROM windlass.workers"), format!("{{{},{}}}", ids[3].0, ids[4].0));
    engine.sweep(100).await.unwrap();
    assert_eq!(open_claims(&place), 0);
}

#[tokio::test]
async fn running_jobs_that_no_claim_knows_of_are_found_and_taken_back_with_and_without_a_token() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let ids = enqueue(&engine, 3).await;
    claim(&engine, 2).await;
    place.sql(&format!(
        "DELETE FROM windlass.claims; UPDATE windlass.delayed_jobs SET token = NULL WHERE id = {}",
        ids[1].0
    ));
    assert_eq!(rescue(&engine, &clock).await, []);
    engine.prune(100).await.unwrap();
    assert_eq!(rescue(&engine, &clock).await, ids[..1]);
    engine.prune(100).await.unwrap();
    assert_eq!(rescue(&engine, &clock).await, ids[1..2], "the job has a token by now");
}

#[tokio::test]
async fn jobs_of_one_claim_that_it_does_not_name_are_added_to_those_it_does() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let ids = enqueue(&engine, 4).await;
    claim(&engine, 4).await;
    place.sql(&format!("UPDATE windlass.claims SET held = 1, jobs = '{{{}}}'", ids[2].0));
    engine.prune(100).await.unwrap();
    assert_eq!(held(&engine).await, 4);
    engine.prune(100).await.unwrap();
    assert_eq!(held(&engine).await, 4, "once");
    assert_eq!(rescue(&engine, &clock).await, ids);
}

#[tokio::test]
async fn an_old_claim_stays_as_long_as_it_holds_something() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    enqueue(&engine, 1).await;
    let job = claim(&engine, 1).await.remove(0);
    clock.advance(Duration::from_secs(30 * 86_400));
    engine.prune(100).await.unwrap();
    assert_eq!(place.count("windlass.claims"), 1);
    engine.settle(vec![succeed(job)]).await.unwrap();
    engine.prune(100).await.unwrap();
    assert_eq!(place.count("windlass.claims"), 0);
}

#[tokio::test]
async fn many_ends_of_many_claims_are_folded_in_one_go() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql(
        "INSERT INTO windlass.claims (token, at, worker, held, jobs)
         SELECT md5(n::text)::uuid, now(), gen_random_uuid(), 2, ARRAY[n, n + 1] FROM generate_series(1, 40000) AS n;
         INSERT INTO windlass.claim_ends (token, jobs)
         SELECT md5(n::text)::uuid, 1 FROM generate_series(1, 40000) AS n, generate_series(1, 2)",
    );
    engine.sweep(100).await.unwrap();
    assert_eq!((place.count("windlass.claim_ends"), open_claims(&place)), (0, 0));
}

#[tokio::test]
async fn a_claim_that_another_session_has_locked_keeps_no_other_from_being_folded() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let mut jobs = claim(&engine, 1).await;
    jobs.extend(claim(&engine, 1).await);
    let their = session(&place.url).await;
    let lock = format!("SELECT 1 FROM {}.claims WHERE token = '{}' FOR UPDATE", place.schema, jobs[0].token);
    their.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
    engine.settle(jobs.into_iter().map(succeed).collect()).await.unwrap();
    engine.sweep(100).await.unwrap();
    assert_eq!((place.count("windlass.claim_ends"), open_claims(&place)), (1, 1));
    assert_eq!(held(&engine).await, 0);
    their.batch_execute("ROLLBACK").await.unwrap();
    engine.sweep(100).await.unwrap();
    assert_eq!((place.count("windlass.claim_ends"), open_claims(&place)), (0, 0));
}

#[tokio::test]
async fn jobs_are_taken_back_and_workers_let_out_even_if_nothing_can_be_folded() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let ids = enqueue(&engine, 3).await;
    let first = claim(&engine, 2).await.remove(0);
    engine.settle(vec![succeed(first)]).await.unwrap();
    place.sql(
        "CREATE FUNCTION windlass.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE ON windlass.claims FOR EACH ROW EXECUTE FUNCTION windlass.refuse()",
    );
    assert_eq!(rescue(&engine, &clock).await, [ids[1]]);
    let other = WorkerId::from_random(0xbeef);
    engine.register(card(other)).await.unwrap();
    assert_eq!(claimed(engine.claim(claim_request(other, 1)).await.unwrap()).len(), 1);
    engine.retire(other).await.unwrap();
    assert_eq!(running(&engine).await, []);
}

#[tokio::test]
async fn what_one_claim_takes_from_several_queues_is_one_claim() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let (second, its_type) = (QueueName::parse("second").unwrap(), TypeName::parse("other").unwrap());
    let types = vec![TypeSpec::new(its_type.clone(), second.clone())];
    engine.declare(Declaration { queues: vec![QueueSpec::new(second.clone())], types }).await.unwrap();
    let mut ids = enqueue(&engine, 2).await;
    let others = vec![NewJob::new(its_type.clone(), Payload::default()); 2];
    let answers = engine.enqueue(request(others)).await.unwrap();
    ids.extend(answers.iter().map(|answer| answer.job().unwrap()));
    let from_both = ClaimRequest {
        queues: vec![queue(), second],
        types: vec![kind(), its_type],
        ..claim_request(WORKER, 10)
    };
    let mut jobs = claimed(engine.claim(from_both.clone()).await.unwrap());
    assert_eq!(place.sql("SELECT held, cardinality(jobs) FROM windlass.claims"), "4|4");
    let again = ClaimRequest { repeat: true, ..from_both };
    assert_eq!(claimed(engine.claim(again).await.unwrap()).len(), 4);
    engine.settle(vec![succeed(jobs.remove(0))]).await.unwrap();
    assert_eq!(rescue(&engine, &clock).await, ids[1..]);
}

#[tokio::test]
async fn a_job_that_was_started_in_time_is_no_longer_looked_at_as_one_that_may_expire() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let expiring = NewJob { expires: Some(When::In(Duration::from_secs(5))), ..super::new_job() };
    let id = engine.enqueue(request(vec![expiring])).await.unwrap()[0].job().unwrap();
    let snooze = Transition::Snooze { after: Duration::from_secs(60) };
    let job = claim(&engine, 1).await.remove(0);
    engine.settle(vec![job.settled(snooze, AttemptReport::default())]).await.unwrap();
    assert_eq!(place.count("windlass.delayed_jobs WHERE expires_at IS NOT NULL AND NOT started"), 0);
    clock.advance(Duration::from_secs(30));
    engine.sweep(100).await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Scheduled);
}
