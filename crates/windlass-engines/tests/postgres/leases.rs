//! Leases and other sessions: a transaction of the application that writes under a lease, and a process
//! that waits for a lease of another.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;
use windlass_core::admin::Changed;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LockHolder, LockRecord, LockRequest, Released, Renewal,
    Renewed, Taking, TermId,
};
use windlass_core::limits::DUTIES_PER_CALL_MAX;
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};

use super::listening::{blind, until_listening};
use super::{TestStore, WAIT_MAX, WORKER, bits, session};

fn rescue() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

fn request() -> LeaseRequest {
    let duties = vec![(rescue(), Duration::from_secs(600))];
    LeaseRequest { worker: WORKER, id: TermId::from_random(bits()), duties }
}

async fn take(engine: &PostgresEngine) -> LeaseFence {
    match engine.take_leases(&request()).await.unwrap()[..] {
        [Taking::Taken(term, _)] => LeaseFence { duty: rescue(), term },
        ref other => panic!("expected the lease to be free, got {other:?}"),
    }
}

/// Returns a write under a lease, as core's page on leases shows it.
fn write_under(lease: &LeaseFence) -> String {
    format!(
        "INSERT INTO windlass.ledger SELECT 1 WHERE EXISTS (SELECT 1 FROM windlass.background_job_leases
         WHERE job_name = '{}' AND fence = {} AND term = '{}' AND held_by_worker_id IS NOT NULL
         AND heartbeat_at + expiry_micros * interval '1 microsecond' > clock_timestamp() FOR KEY SHARE)",
        lease.duty, lease.term.fence, lease.term.id
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_under_a_term_keeps_the_next_one_waiting_and_heartbeats_pass() {
    let place = TestStore::shared();
    let engine = Arc::new(place.open().await);
    place.sql("CREATE TABLE windlass.ledger (entry integer)");
    let lease = take(&engine).await;
    let writer = session(&place.direct).await;
    let write = write_under(&lease).replace("windlass.", &format!("{}.", place.schema));
    writer.batch_execute("BEGIN").await.unwrap();
    assert_eq!(writer.execute(&write, &[]).await.unwrap(), 1);

    let heartbeat = Renewal { lease: lease.clone(), metadata: None };
    assert_eq!(engine.renew_leases(&[heartbeat]).await.unwrap(), [Renewed::Kept]);
    assert_eq!(engine.release_leases(&[LeaseRelease::from(&lease)]).await.unwrap(), [Released::Done]);
    let next = timeout(WAIT_MAX, engine.take_leases(&request()))
        .await
        .expect("the request does not wait for the writer")
        .unwrap();
    assert_eq!(next, [Taking::Busy], "the next term does not begin");
    writer.batch_execute("COMMIT").await.unwrap();
    take(&engine).await;
    assert_eq!(writer.execute(&write, &[]).await.unwrap(), 0, "the old term writes nothing");
    assert_eq!(place.count("windlass.ledger"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_transaction_under_one_term_keeps_no_process_from_other_leases() {
    let place = TestStore::shared();
    let engine = place.open().await;
    place.sql("CREATE TABLE windlass.ledger (entry integer)");
    let names = ["a", "b", "c"].map(|name| DutyName::parse(name).unwrap());
    let wants = |names: &[DutyName]| {
        let duties = names.iter().map(|name| (name.clone(), Duration::from_secs(600))).collect();
        LeaseRequest { worker: WORKER, id: TermId::from_random(bits()), duties }
    };
    let takings = engine.take_leases(&wants(&names)).await.unwrap();
    let [Taking::Taken(a, _), Taking::Taken(b, _), Taking::Taken(_, _)] = takings[..] else {
        panic!("{takings:?}")
    };
    let (a, b) =
        (LeaseFence { duty: names[0].clone(), term: a }, LeaseFence { duty: names[1].clone(), term: b });
    let writer = session(&place.direct).await;
    writer.batch_execute("BEGIN").await.unwrap();
    let write = write_under(&b).replace("windlass.", &format!("{}.", place.schema));
    assert_eq!(writer.execute(&write, &[]).await.unwrap(), 1);
    engine.release_leases(&[LeaseRelease::from(&a), LeaseRelease::from(&b)]).await.unwrap();

    let next = timeout(WAIT_MAX, engine.take_leases(&wants(&names)))
        .await
        .expect("the request waits for no lock")
        .unwrap();
    assert!(matches!(next[..], [Taking::Taken(..), Taking::Busy, Taking::Held { .. }]), "{next:?}");
    writer.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(engine.take_leases(&wants(&names[1..2])).await.unwrap()[..], [Taking::Taken(..)]));
}

#[tokio::test]
async fn a_look_at_leases_that_others_hold_locks_nothing() {
    let place = TestStore::shared();
    let engine = place.open().await;
    take(&engine).await;
    let other = session(&place.direct).await;
    other.batch_execute("BEGIN").await.unwrap();
    let lock = format!("SELECT 1 FROM {}.background_job_leases FOR UPDATE", place.schema);
    other.batch_execute(&lock).await.unwrap();
    let looked = timeout(WAIT_MAX, engine.take_leases(&request()))
        .await
        .expect("the request waits for no lock")
        .unwrap();
    assert!(matches!(looked[..], [Taking::Held { .. }]), "{looked:?}");
}

#[tokio::test]
async fn a_renewal_is_on_disk_before_it_is_answered() {
    let place = TestStore::shared();
    let engine = place.open().await;
    let lease = take(&engine).await;
    // Records which durability the commit of each statement on the table waited for.
    place.sql(
        "CREATE TABLE windlass.seen (setting text);
         CREATE FUNCTION windlass.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO windlass.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER see AFTER UPDATE ON windlass.background_job_leases
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION windlass.see()",
    );
    engine.renew_leases(&[Renewal { lease, metadata: None }]).await.unwrap();
    assert_eq!(place.sql("SELECT DISTINCT setting FROM windlass.seen"), "on");
}

/// Receives only hints about leases.
struct Listener(Sender<DutyName>);

impl HintListener for Listener {
    fn hint(&self, hint: Hint) {
        if let Hint::Lease(duty) = hint {
            self.0.try_send(duty).expect("the channel has space for a few hints");
        }
    }
}

#[tokio::test]
async fn another_process_hears_at_once_of_a_lease_that_is_given_back_and_of_a_request_to_step_down() {
    let place = TestStore::shared();
    let deaf = PostgresOptions { listen: false, ..place.options() };
    let (holder, person) = (place.open_with(deaf.clone()).await, place.open_with(deaf).await);
    let waits = place.open_with(PostgresOptions { periods: blind(), ..place.options() }).await;
    let (sender, mut hints) = channel(10);
    let listener: Arc<dyn HintListener> = Arc::new(Listener(sender));
    waits.on_hint(Arc::downgrade(&listener));
    until_listening(&place);

    let lease = take(&holder).await;
    assert_eq!(person.step_down(&rescue()).await.unwrap(), Changed::Done);
    assert_eq!(timeout(WAIT_MAX, hints.recv()).await.unwrap(), Some(rescue()));
    assert_eq!(holder.release_leases(&[LeaseRelease::from(&lease)]).await.unwrap(), [Released::Done]);
    assert_eq!(timeout(WAIT_MAX, hints.recv()).await.unwrap(), Some(rescue()));
    take(&waits).await;
}

/// Requests the lease until it is granted. By the server's own clock, no request may be refused that was
/// sent after the lease had expired.
async fn take_when_free(engine: &PostgresEngine, expiry: Duration) -> LeaseFence {
    loop {
        let before = engine.leases().await.unwrap();
        let expires = before.leases.first().map(|lease| lease.heartbeat.plus(lease.expiry));
        let duties = vec![(rescue(), expiry)];
        let request = LeaseRequest { worker: WORKER, id: TermId::from_random(bits()), duties };
        if let [Taking::Taken(term, _)] = engine.take_leases(&request).await.unwrap()[..] {
            return LeaseFence { duty: rescue(), term };
        }
        let is_held = expires.is_some_and(|expires| before.now <= expires);
        assert!(is_held, "expected a grant at {}, the lease expired at {expires:?}", before.now);
    }
}

#[tokio::test]
async fn by_the_servers_own_clock_a_silent_holder_is_followed_when_its_lease_expires_and_not_before() {
    let place = TestStore::shared();
    let (silent, waits) = (place.open().await, place.open().await);
    let expiry = Duration::from_millis(500);
    let old = take_when_free(&silent, expiry).await;
    let new = take_when_free(&waits, expiry).await;
    assert!(new.term.fence >= old.term.fence + 500_000, "a fence is no lower than the time in microseconds");
    assert_eq!(silent.leases_hold(&[old]).await.unwrap(), [false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_locks_as_a_call_may_be_about_are_taken_and_given_back_by_one_statement_each() {
    let place = TestStore::shared();
    let (one, other) = (place.open().await, place.open().await);
    let duties: Vec<_> =
        (0..DUTIES_PER_CALL_MAX).map(|n| DutyName::parse(&format!("duty-{n}")).unwrap()).collect();
    let wants = |worker: u128, duties: &[DutyName]| LockRequest {
        worker: WorkerId::from_random(worker),
        duties: duties.to_vec(),
        good_for: Duration::from_secs(600),
    };
    let (first, all) = (wants(1, &duties[..1]), wants(2, &duties));
    assert_eq!(other.lock_duties(&first).await.unwrap(), [true]);
    let taken = one.lock_duties(&all).await.unwrap();
    assert!(!taken[0] && taken[1..].iter().all(|taken| *taken), "{taken:?}");
    assert_eq!(one.lock_duties(&all).await.unwrap(), taken, "the locks are kept");
    assert_eq!(other.lock_duties(&wants(1, &duties)).await.unwrap().iter().filter(|has| **has).count(), 1);
    one.unlock_duties(WorkerId::from_random(2), &duties).await.unwrap();
    assert!(
        other.lock_duties(&wants(1, &duties)).await.unwrap().iter().all(|has| *has),
        "each lock was taken once"
    );
}

/// Requests the lock of a duty until it is granted.
async fn lock(engine: &PostgresEngine, worker: u128, duty: &str) {
    let request = LockRequest {
        worker: WorkerId::from_random(worker),
        duties: vec![DutyName::parse(duty).unwrap()],
        good_for: Duration::from_secs(600),
    };
    let asking = async {
        // The engine replaces a session that was ended, and a lock is free when the server has noticed the
        // end.
        while !engine.lock_duties(&request).await.is_ok_and(|has| has == [true]) {
            // may sleep: no signal says that a lock is free.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_MAX, asking).await.expect("the lock is free");
}

/// Returns the known locks with their owners.
async fn owners(engine: &PostgresEngine) -> Vec<(String, Option<WorkerId>)> {
    let worker = |holder: LockHolder| holder.noted.map(|(worker, _)| worker);
    let owner = |lock: LockRecord| (lock.duty.to_string(), lock.holder.and_then(worker));
    engine.leases().await.unwrap().locks.into_iter().map(owner).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_process_sees_which_worker_has_which_lock_of_a_duty_and_since_when() {
    let place = TestStore::shared();
    let (one, other) = (place.open().await, place.open().await);
    let before = other.leases().await.unwrap();
    assert_eq!(before.locks, []);
    lock(&one, 1, "totals").await;
    let read = other.leases().await.unwrap();
    let [LockRecord { duty, holder: Some(LockHolder { session, noted: Some((worker, since)) }) }] =
        &read.locks[..]
    else {
        panic!("expected a lock with an owner, got {:?}", read.locks)
    };
    assert_eq!((duty.as_str(), *worker), ("totals", WorkerId::from_random(1)));
    assert!(before.now <= *since && *since <= read.now, "{since} between {} and {}", before.now, read.now);
    let named = |duty: &str, worker: Option<u128>| (duty.to_owned(), worker.map(WorkerId::from_random));
    // The page says how to query the locks in SQL.
    let page = include_str!("../../../../docs/coordination.md");
    let by_hand =
        page.split("```sql").nth(1).and_then(|rest| rest.split("```").next()).expect("the page has a query");
    assert!(place.sql(by_hand).starts_with("totals|"), "{}", place.sql(by_hand));
    lock(&one, 2, "rest").await;
    assert_eq!(owners(&other).await, [named("rest", Some(2)), named("totals", Some(1))], "of one session");
    place.sql(&format!("SELECT pg_terminate_backend({session})"));
    lock(&other, 3, "totals").await;
    assert_eq!(
        owners(&one).await,
        [named("rest", None), named("totals", Some(3))],
        "the locks went with the session"
    );
    other
        .unlock_duties(WorkerId::from_random(3), &[DutyName::parse("totals").unwrap()])
        .await
        .expect("the server is up");
    assert_eq!(owners(&one).await, [named("rest", None), named("totals", None)], "no session has them");
}

/// The case of an operator who repacks tables: the table of notes is for operators, and the duty does not
/// wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_locked_the_table_of_notes_keeps_no_process_from_a_duty() {
    let place = TestStore::shared();
    let (one, other) = (place.open().await, place.open().await);
    let repacker = session(&place.direct).await;
    let hold = format!("BEGIN; LOCK TABLE {}.duty_locks", place.schema);
    repacker.batch_execute(&hold).await.unwrap();
    lock(&one, 1, "totals").await;
    repacker.batch_execute("COMMIT").await.unwrap();
    let read = other.leases().await.unwrap();
    let holder =
        read.locks.iter().find(|lock| lock.duty.as_str() == "totals").and_then(|lock| lock.holder.as_ref());
    assert!(holder.is_none_or(|holder| holder.noted.is_none()), "{:?}", read.locks);
    let held = LockRequest {
        worker: WorkerId::from_random(2),
        duties: vec![DutyName::parse("totals").unwrap()],
        good_for: Duration::from_secs(600),
    };
    assert_eq!(other.lock_duties(&held).await.unwrap(), [false], "its session continues and has the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_without_a_holder_for_long_is_forgotten_and_one_with_a_holder_is_not() {
    let place = TestStore::shared();
    let engine = place.open().await;
    lock(&engine, 1, "totals").await;
    lock(&engine, 1, "rest").await;
    engine.unlock_duties(WorkerId::from_random(1), &[DutyName::parse("rest").unwrap()]).await.unwrap();
    place.sql("UPDATE windlass.duty_locks SET since = now() - interval '31 days'");
    lock(&engine, 1, "others").await;
    let known: Vec<_> = owners(&engine).await.into_iter().map(|(duty, _)| duty).collect();
    assert_eq!(known, ["others", "totals"]);
}
