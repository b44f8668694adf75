//! Which sessions wait for each other. Our own calls lock in one order and so never deadlock among
//! themselves, whatever the order in which their callers name things. An application's transaction may
//! deadlock with one of ours; the server ends one of the two, and nothing is lost.

use std::sync::Arc;

use tokio::task::{JoinHandle, JoinSet};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use windlass_core::claim::Claimed;
use windlass_core::engine::{Engine, Result};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob};
use windlass_core::job::Progress;
use windlass_core::key::{KeyClaim, OnConflict};
use windlass_core::names::Key;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions, enqueue_in};

use super::locks::{PATIENT, keyed, own_database, unavailable, until_waiting};
use super::{TestStore, claim, enqueue, eventually, new_job, request, server, session};

const KEYS: usize = 40;
const ROUNDS: usize = 20;

/// Creates a database of its own, where deadlocks of other tests are not counted, and where a deadlock is
/// detected within a moment.
fn watched() -> TestStore {
    with_own_settings(DETECTS_SOON)
}

/// Creates a database like [`watched`], with another setting.
fn with_own_settings(setting: &str) -> TestStore {
    let place = own_database();
    let settings = format!("{PATIENT} -c {setting}").replace(' ', "%20").replace('=', "%3D");
    TestStore { url: format!("{}?options={settings}", place.url), ..place }
}

fn deadlocks(place: &TestStore) -> String {
    place.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

/// Fails if the server ended a transaction because of a deadlock. An enqueue that was ended would have been
/// repeated without any message. The counts of a session are complete only after the session has ended.
fn assert_no_deadlock(place: &TestStore) {
    let others = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    eventually("all sessions are gone", || (place.count(others) == 0).then_some(()));
    assert_eq!(deadlocks(place), "0");
}

/// Creates one job for each key of a round, in the order of the keys.
fn keyed_jobs(round: usize, on_conflict: OnConflict) -> Vec<NewJob> {
    let claim = |n| KeyClaim { on_conflict, ..KeyClaim::new(Key::parse(&format!("{round}-{n}")).unwrap()) };
    (0..KEYS).map(|n| NewJob { key: Some(claim(n)), ..new_job() }).collect()
}

fn backwards(mut jobs: Vec<NewJob>) -> Vec<NewJob> {
    jobs.reverse();
    jobs
}

/// Returns the answers in the order of the keys.
fn forwards(mut answers: Vec<EnqueueAnswer>) -> Vec<EnqueueAnswer> {
    answers.reverse();
    answers
}

/// Asserts that each key has one job, which one caller created and the other got as a duplicate.
fn assert_each_made_once(one: &[EnqueueAnswer], other: &[EnqueueAnswer]) {
    assert_eq!((one.len(), other.len()), (KEYS, KEYS));
    for (one, other) in one.iter().zip(other) {
        let made = [one, other].into_iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
        assert_eq!((made, one.job()), (1, other.job()), "{one:?} {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_put_in_the_same_keys_in_opposite_order_never_wait_for_each_other() {
    let place = watched();
    let (first, second) = (Arc::new(place.ready().await), Arc::new(place.open().await));
    for round in 0..ROUNDS {
        let on_conflict = if round % 2 == 0 { OnConflict::Keep } else { OnConflict::Replace };
        let jobs = keyed_jobs(round, on_conflict);
        let (here, there) = (request(jobs.clone()), request(backwards(jobs)));
        let (one, other) = tokio::join!(first.enqueue(here), second.enqueue(there));
        assert_each_made_once(&one.unwrap(), &forwards(other.unwrap()));
    }
    assert_eq!(place.count("windlass.delayed_jobs"), (KEYS * ROUNDS) as u64);
    drop((first, second));
    assert_no_deadlock(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_call_the_function_never_wait_in_a_circle_for_an_engine_or_for_each_other() {
    let place = watched();
    let engine = Arc::new(place.ready().await);
    let mut sessions = [session(&place.url).await, session(&place.url).await];
    for round in 0..ROUNDS {
        let jobs = keyed_jobs(round, if round % 2 == 0 { OnConflict::Keep } else { OnConflict::Replace });
        let [one, other] = &mut sessions;
        let (asked, schema) = (request(jobs.clone()), place.schema.as_str());
        let (one, other, engines) = tokio::join!(
            in_a_transaction(one, schema, jobs.clone()),
            in_a_transaction(other, schema, backwards(jobs)),
            engine.enqueue(asked)
        );
        let (other, engines) = (forwards(other), engines.unwrap());
        for three in one.iter().zip(&other).zip(&engines) {
            let ((one, other), engines) = three;
            let made =
                [one, other, engines].iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
            assert_eq!(made, 1, "{three:?}");
            assert!(one.job() == other.job() && other.job() == engines.job(), "{three:?}");
        }
    }
    assert_eq!(place.count("windlass.delayed_jobs"), (KEYS * ROUNDS) as u64);
    drop((engine, sessions));
    assert_no_deadlock(&place);
}

async fn in_a_transaction(client: &mut Client, schema: &str, jobs: Vec<NewJob>) -> Vec<EnqueueAnswer> {
    let tx = client.transaction().await.unwrap();
    let answers = enqueue_in(&tx, schema, jobs).await.unwrap();
    tx.commit().await.unwrap();
    answers
}

/// Returns all ways to end an attempt, for jobs with and without keys.
fn ends(claimed: &[Claimed]) -> Vec<Settlement> {
    let error = || JobError::new(ErrorKind::Failed, "oops");
    let end = |(n, one): (usize, &Claimed)| {
        let transition = match n % 4 {
            0 => Transition::Retry { after: std::time::Duration::from_secs(3600), error: error() },
            1 => Transition::Bury { error: error() },
            _ => Transition::Succeed { result: None },
        };
        one.clone().settled(transition, AttemptReport::default())
    };
    claimed.iter().enumerate().map(end).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_settle_and_report_the_same_jobs_in_opposite_order_never_wait_for_each_other() {
    let place = watched();
    let (first, second) = (Arc::new(place.ready().await), Arc::new(place.open().await));
    for round in 0..ROUNDS {
        let plain = round % 2 == 0;
        let jobs = if plain { vec![new_job(); KEYS] } else { keyed_jobs(round, OnConflict::Keep) };
        first.enqueue(request(jobs)).await.unwrap();
        let claimed = claim(&first, 100).await;
        assert_eq!(claimed.len(), KEYS);
        let halfway = |one: &Claimed| (one.fence(), Progress { percent: 50, note: None });
        let reports: Vec<_> = claimed.iter().map(halfway).collect();
        let reversed: Vec<_> = reports.iter().rev().cloned().collect();
        let (one, other) = tokio::join!(first.report(reports), second.report(reversed));
        assert_eq!(
            (one.unwrap(), other.unwrap()),
            (vec![Settled::Applied; KEYS], vec![Settled::Applied; KEYS])
        );
        let batch = if plain { successes(&claimed) } else { ends(&claimed) };
        let reversed: Vec<_> = batch.iter().rev().cloned().collect();
        let (one, other) = tokio::join!(first.settle(batch), second.settle(reversed));
        // Both requests settle each job in the same way, so both get the same answer, whichever wrote it.
        assert_eq!(
            (one.unwrap(), other.unwrap()),
            (vec![Settled::Applied; KEYS], vec![Settled::Applied; KEYS])
        );
    }
    assert_ended_once(&place);
    drop((first, second));
    assert_no_deadlock(&place);
}

fn successes(claimed: &[Claimed]) -> Vec<Settlement> {
    let succeed =
        |one: &Claimed| one.clone().settled(Transition::Succeed { result: None }, AttemptReport::default());
    claimed.iter().map(succeed).collect()
}

/// Asserts that every job is in one place, and that every enqueued job is somewhere.
fn assert_ended_once(place: &TestStore) {
    let everywhere = "(SELECT id FROM windlass.job_history UNION ALL SELECT id FROM windlass.delayed_jobs_dlq
        UNION ALL SELECT id FROM windlass.delayed_jobs) AS jobs";
    let counted = place.sql(&format!("SELECT count(*), count(DISTINCT id) FROM {everywhere}"));
    let all = KEYS * ROUNDS;
    assert_eq!(counted, format!("{all}|{all}"));
    assert_eq!(place.count("windlass.delayed_jobs WHERE locked_by IS NOT NULL"), 0);
}

/// A session checks for a deadlock once, `deadlock_timeout` after it began to wait. So the session that
/// must detect the deadlock has to wait last. A session that waits before the deadlock exists may check too
/// early, and does not check again. With this setting the other session never checks.
const NEVER_DETECTS: &str = "deadlock_timeout=3600000";
const DETECTS_SOON: &str = "deadlock_timeout=50";

/// A transaction of an application that holds the key `c`.
struct Other {
    user: Client,
    schema: String,
}

impl Other {
    async fn has_c(place: &TestStore, setting: &str) -> Self {
        let other = Self { user: session(&place.direct).await, schema: place.schema.clone() };
        let begin = format!("SET {setting}; BEGIN; {}", put(&other.schema, "c"));
        other.user.batch_execute(&begin).await.unwrap();
        other
    }

    async fn put_a(&self) -> std::result::Result<(), tokio_postgres::Error> {
        self.user.batch_execute(&put(&self.schema, "a")).await
    }

    async fn commit(&self) {
        self.user.batch_execute("COMMIT").await.unwrap();
    }
}

fn put(schema: &str, key: &str) -> String {
    format!("SELECT {schema}.enqueue('work', key => '{key}')")
}

fn enqueue_of(engine: &Arc<PostgresEngine>, asked: EnqueueRequest) -> JoinHandle<Result<Vec<EnqueueAnswer>>> {
    let engine = Arc::clone(engine);
    tokio::spawn(async move { engine.enqueue(asked).await })
}

async fn with_setting(setting: &str) -> (TestStore, Arc<PostgresEngine>) {
    let place = with_own_settings(setting);
    let engine = Arc::new(place.ready().await);
    (place, engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_the_server_ends_for_an_applications_transaction_is_tried_again() {
    let (place, engine) = with_setting(DETECTS_SOON).await;
    count_tries_of_b(&place);
    let (other, third) = (Other::has_c(&place, NEVER_DETECTS).await, session(&place.direct).await);
    third.batch_execute(&format!("BEGIN; {}", put(&place.schema, "b"))).await.unwrap();
    let asked = request(vec![keyed("a"), keyed("b"), keyed("c")]);
    let enqueueing = enqueue_of(&engine, asked.clone());
    until_waiting(&place, 1, "the engine has the first key and waits for the second");
    let waiting = tokio::spawn(async move { (other.put_a().await, other) });
    until_waiting(&place, 2, "the other transaction waits for the first key");
    // Now the engine reaches the third key, and both transactions wait for each other.
    third.batch_execute("ROLLBACK").await.unwrap();
    let (put, other) = waiting.await.unwrap();
    put.expect("the other transaction continues");
    other.commit().await;
    let answers = enqueueing.await.unwrap().expect("the enqueue comes after the other transaction");
    let [EnqueueAnswer::Duplicate(_), EnqueueAnswer::New(_), EnqueueAnswer::Duplicate(_)] = answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!(engine.enqueue(asked).await.unwrap(), answers, "a repeat gets the same answers");
    assert_eq!(place.count("windlass.delayed_jobs"), 3);
    assert_eq!(place.count("windlass.job_keys"), 3);
    assert_eq!(tries(&place), "3", "the third session tried once, and the engine twice");
}

/// Counts the tries to take the key `b`. A sequence also counts those that are rolled back.
fn count_tries_of_b(place: &TestStore) {
    place.sql(
        "CREATE SEQUENCE windlass.tries;
         CREATE FUNCTION windlass.count_tries() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.key = 'b' THEN PERFORM nextval('windlass.tries'); END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER tries BEFORE INSERT ON windlass.job_keys
             FOR EACH ROW EXECUTE FUNCTION windlass.count_tries()",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_transaction_that_the_server_ends_for_an_enqueue_leaves_nothing() {
    let (place, engine) = with_setting(NEVER_DETECTS).await;
    let other = Other::has_c(&place, DETECTS_SOON).await;
    let enqueueing = enqueue_of(&engine, request(vec![keyed("a"), keyed("b"), keyed("c")]));
    until_waiting(&place, 1, "the engine has two keys and waits for the third");
    let ended = other.put_a().await.unwrap_err();
    assert_eq!(ended.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED));
    other.commit().await;
    let answers = enqueueing.await.unwrap().unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, EnqueueAnswer::New(_))), "{answers:?}");
    assert_eq!(place.count("windlass.delayed_jobs"), 3);
}

/// Makes the server report a deadlock for the first `count` inserts. A sequence also counts inserts that
/// are rolled back.
fn deadlock_first(place: &TestStore, count: u32) {
    place.sql(&format!(
        "CREATE SEQUENCE windlass.tries;
         CREATE FUNCTION windlass.deadlock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('windlass.tries') <= {count} THEN
                 RAISE 'deadlock detected' USING ERRCODE = '40P01';
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER deadlock BEFORE INSERT ON windlass.delayed_jobs EXECUTE FUNCTION windlass.deadlock()"
    ));
}

fn tries(place: &TestStore) -> String {
    place.sql("SELECT last_value FROM windlass.tries")
}

#[tokio::test]
async fn an_enqueue_gives_up_after_six_circles_in_a_row_with_an_error_that_may_be_repeated() {
    for job in [new_job(), keyed("a")] {
        let place = TestStore::on(server().url());
        let engine = place.ready().await;
        deadlock_first(&place, 6);
        let asked = request(vec![job]);
        let error = engine.enqueue(asked.clone()).await.unwrap_err();
        assert!(
            unavailable(&error) && error.is_passing() && error.to_string().contains("40P01"),
            "{error:?}"
        );
        assert_eq!(tries(&place), "6");
        assert_eq!(place.count("windlass.delayed_jobs"), 0);
        let answers = engine.enqueue(asked.clone()).await.unwrap();
        assert_eq!(tries(&place), "7");
        assert_eq!(engine.enqueue(asked).await.unwrap(), answers);
        assert_eq!(place.count("windlass.delayed_jobs"), 1);
    }
}

#[tokio::test]
async fn a_settlement_that_the_server_ends_may_be_repeated() {
    let place = TestStore::on(server().url());
    let engine = place.ready().await;
    enqueue(&engine, 4).await;
    let batch = ends(&claim(&engine, 4).await);
    place.sql(
        "CREATE FUNCTION windlass.deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE 'deadlock detected' USING ERRCODE = '40P01'; END $$;
         CREATE TRIGGER deadlock BEFORE INSERT ON windlass.claim_ends EXECUTE FUNCTION windlass.deadlock()",
    );
    let error = engine.settle(batch.clone()).await.unwrap_err();
    assert!(unavailable(&error) && error.is_passing(), "{error:?}");
    assert_eq!(place.count("windlass.delayed_jobs WHERE locked_by IS NOT NULL"), 4, "nothing was written");
    place.sql("DROP TRIGGER deadlock ON windlass.claim_ends");
    assert_eq!(engine.settle(batch).await.unwrap(), [Settled::Applied; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_put_in_and_settle_jobs_of_the_same_keys_are_all_answered() {
    let place = watched();
    let mut engines = vec![Arc::new(place.ready().await)];
    engines.push(Arc::new(place.open().await));
    let mut callers = JoinSet::new();
    for n in 0..6 {
        let engine = Arc::clone(&engines[n % 2]);
        callers.spawn(async move {
            for _ in 0..15 {
                let mut jobs = keyed_jobs(0, if n < 3 { OnConflict::Keep } else { OnConflict::Replace });
                fastrand::shuffle(&mut jobs);
                engine.enqueue(request(jobs)).await.expect("the enqueue is answered");
                let mut batch = successes(&claim(&engine, 20).await);
                fastrand::shuffle(&mut batch);
                let ends = engine.settle(batch).await.expect("the settle is answered");
                assert!(ends.iter().all(|end| *end == Settled::Applied), "{ends:?}");
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.expect("no deadlock");
    }
    // The remaining jobs wait; no key is held without a job, and no two jobs have the same key.
    let holders = place.sql(
        "SELECT count(*), count(DISTINCT job) FROM windlass.job_keys k
        WHERE EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.id = k.job AND j.key = k.key)",
    );
    let waiting = place.count("windlass.delayed_jobs");
    assert_eq!(holders, format!("{waiting}|{waiting}"));
    assert_eq!(place.count("windlass.job_keys"), waiting);
    drop(engines);
    assert_no_deadlock(&place);
}

/// A database may set transactions to see one snapshot from beginning to end. Ours must see what other
/// transactions have committed while they waited, and would fail at every row that they share with another.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_transactions_are_isolated_by_default_changes_nothing() {
    for (isolation, pooled) in [("serializable", false), ("repeatable read", true)] {
        let place = own_database();
        let (_, name) = place.direct.rsplit_once('/').unwrap();
        place.sql(&format!("ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'"));
        let options = PostgresOptions { pooled, ..place.options() };
        let engines = [place.open_with(options.clone()).await, place.open_with(options).await];
        super::make_ready(&engines[0]).await;
        let [first, second] = &engines;
        for round in 0..10 {
            let jobs = keyed_jobs(round, OnConflict::Keep);
            let (here, there) = (request(jobs.clone()), request(backwards(jobs)));
            let (one, other) = tokio::join!(first.enqueue(here), second.enqueue(there));
            assert_each_made_once(&one.unwrap(), &forwards(other.unwrap()));
            let (one, other) = tokio::join!(claim(first, 30), claim(second, 30));
            let (one, other) = (ends(&one), ends(&other));
            let (one, other) = tokio::join!(first.settle(one), second.settle(other));
            assert!(one.unwrap().iter().chain(&other.unwrap()).all(|end| *end == Settled::Applied));
        }
    }
}
