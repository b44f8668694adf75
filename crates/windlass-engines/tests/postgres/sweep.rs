//! Sweeps and heartbeats continue when a part of their work fails, and need further calls when there is
//! much to do.

use std::time::Duration;

use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::JobState;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::TypeName;
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::{Heartbeat, Liveness};

use super::{TestStore, WORKER, claim_request, claimed, enqueue, queue, request};

#[tokio::test]
async fn a_duty_that_fails_keeps_none_of_the_others_undone_and_is_told() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    place.sql(
        "INSERT INTO windlass.ended_keys (job, job_type, key) VALUES (1, 'work', 'k');
         ALTER TABLE windlass.delayed_jobs RENAME COLUMN expires_at TO lost;
         ALTER TABLE windlass.workers RENAME COLUMN expires_at TO lost",
    );
    assert!(place.count("windlass.count_deltas") > 0);
    let error = engine.sweep(10).await.unwrap_err();
    assert!(error.to_string().contains("expires_at"), "{error}");
    assert_eq!(place.count("windlass.count_deltas"), 0, "the steps after the failing ones are done");
    assert_eq!(place.count("windlass.ended_keys"), 0);
}

#[tokio::test]
async fn one_sweep_follows_many_changes_and_frees_many_keys() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql(
        "INSERT INTO windlass.count_deltas (job_type, queue, enqueued)
         SELECT 'work', 'main', 1 FROM generate_series(1, 45000);
         INSERT INTO windlass.ended_keys (job, job_type, key)
         SELECT n, 'work', n::text FROM generate_series(1, 95) AS n",
    );
    engine.sweep(10).await.unwrap();
    assert_eq!(place.count("windlass.count_deltas"), 0);
    assert_eq!(place.count("windlass.ended_keys"), 0);
    assert_eq!(engine.queues().await.unwrap()[0].totals.enqueued, 45_000);
}

#[tokio::test]
async fn a_sweep_looks_for_jobs_without_a_handler_only_of_types_that_have_some_waiting() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let name = TypeName::parse("unhandled").unwrap();
    let types = vec![TypeSpec::new(name.clone(), queue())];
    engine.declare(Declaration { queues: Vec::new(), types }).await.unwrap();
    let answers = engine.enqueue(request(vec![NewJob::new(name, Payload::default())])).await.unwrap();
    let id = answers[0].job().unwrap();
    // The counts say that there is none, so no statement scans all waiting jobs to find it.
    place.sql("UPDATE windlass.count_deltas SET waiting = 0");
    engine.sweep(10).await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Ready);
    place.sql("UPDATE windlass.counts SET waiting = 1 WHERE job_type = 'unhandled'");
    engine.sweep(10).await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Parked);
}

#[tokio::test]
async fn a_heartbeat_is_stored_even_if_it_cannot_learn_what_was_asked_to_stop() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql("ALTER TABLE windlass.delayed_jobs RENAME COLUMN cancel_requested TO lost");
    let beat = engine
        .extend(Heartbeat { worker: WORKER, lease: Duration::from_secs(30), idle: false })
        .await
        .unwrap();
    assert_eq!(beat, Liveness::Alive { cancel: Vec::new() });
    assert_eq!(place.sql("SELECT beats FROM windlass.workers"), "1");
}

/// Old partitions of the history, each with a job that was attempted twice.
const OLD_DAYS: &str = "
DO $$
DECLARE day date;
BEGIN
    FOR day IN SELECT '2020-02-01'::date + n FROM generate_series(0, 2) AS n LOOP
        EXECUTE format('CREATE TABLE windlass.%I PARTITION OF windlass.job_history FOR VALUES FROM (%L) TO (%L)',
            'job_history_' || to_char(day, 'YYYYMMDD'), day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
    CREATE TABLE windlass.job_history_201911 PARTITION OF windlass.job_history
        FOR VALUES FROM ('2019-11-01 00:00+00') TO ('2019-12-01 00:00+00');
END $$;
INSERT INTO windlass.job_history (
    id, keep_until, scheduled_at, created_at, ended_at, attempts, max_attempts, failures, crashes, holds, priority, state,
    queue, job_type, payload
)
SELECT n, CASE n WHEN 3 THEN '2019-11-20 12:00+00'::timestamptz ELSE '2020-02-01 12:00+00'::timestamptz + n * interval '1 day' END,
    now(), now(), now(), 2, 5, 1, 0, 0, 5, 1, 'main', 'work', '{}' FROM generate_series(0, 3) AS n;
INSERT INTO windlass.attempts (job, started_at, ended_at, worker, number, ending)
SELECT n, now(), now(), '00000000-0000-0000-0000-00000000feed', 1, 'failed' FROM generate_series(0, 3) AS n;";

#[tokio::test]
async fn days_of_the_history_that_are_over_go_with_their_attempts() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql(OLD_DAYS);
    let drop_one = "SELECT more FROM windlass.drop_partitions(now())";
    assert_eq!(place.sql(drop_one), "t", "one partition at a time, so that no lock is held for long");
    assert_eq!((place.count("windlass.job_history"), place.count("windlass.attempts")), (3, 3));
    let done = engine.prune(100).await.unwrap();
    assert!(!done.more && done.changed >= 3, "{done:?}");
    assert_eq!((place.count("windlass.job_history"), place.count("windlass.attempts")), (0, 0));
}

#[tokio::test]
async fn a_day_that_cannot_be_dropped_keeps_nothing_else_from_being_pruned() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql(
        "CREATE OR REPLACE FUNCTION windlass.drop_partitions(present timestamptz, OUT dropped bigint, OUT more boolean)
         LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it takes too long' USING ERRCODE = '57014'; END $$;
         INSERT INTO windlass.claims (token, at) VALUES (gen_random_uuid(), now() - interval '1 day')",
    );
    let error = engine.prune(100).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_eq!(place.count("windlass.claims"), 0);
}

#[tokio::test]
async fn what_is_kept_for_long_lies_in_months_and_not_in_the_default_part() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let name = |text: &str| TypeName::parse(text).unwrap();
    let spec = |text, retention_days| TypeSpec { retention_days, ..TypeSpec::new(name(text), queue()) };
    let types = vec![spec("for-years", 1_000), spec("for-weeks", 20)];
    engine.declare(Declaration { queues: Vec::new(), types }).await.unwrap();
    engine.prune(100).await.unwrap();
    let parts = "SELECT count(*) FILTER (WHERE c.relname ~ '_\\d{6}$') > 0, count(*) FILTER (WHERE c.relname ~ '_\\d{8}$') > 7
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'windlass.job_history'::regclass";
    assert_eq!(place.sql(parts), "t|t");
    let jobs = ["for-years", "for-weeks"].map(|text| NewJob::new(name(text), Payload::default()));
    engine.enqueue(request(jobs.to_vec())).await.unwrap();
    let types = vec![name("for-years"), name("for-weeks")];
    let jobs = claimed(engine.claim(ClaimRequest { types, ..claim_request(WORKER, 10) }).await.unwrap());
    let succeed =
        |claimed: Claimed| claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    let ends: Vec<_> = jobs.into_iter().map(succeed).collect();
    assert_eq!(engine.settle(ends).await.unwrap().len(), 2);
    assert_eq!(place.count("windlass.job_history"), 2);
    assert_eq!(place.count("windlass.job_history_rest"), 0);
}
