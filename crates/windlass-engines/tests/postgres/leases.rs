//! Leases and other sessions: who writes under a lease in a transaction of its own, and who waits for one in another process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;
use windlass_core::admin::Changed;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::lease::{LeaseFence, LeaseRequest, Leases, Released, Renewal, Renewed, Taking, TermId};
use windlass_core::names::DutyName;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};

use super::listening::{blind, until_listening};
use super::{PATIENCE, Place, WORKER, bits, eventually, session};

fn rescue() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

fn request() -> LeaseRequest {
    let duties = vec![(rescue(), Duration::from_secs(600))];
    LeaseRequest { worker: WORKER, id: TermId::from_random(bits()), duties }
}

async fn take(engine: &PostgresEngine) -> LeaseFence {
    match engine.take_leases(&request()).await.unwrap()[..] {
        [Taking::Taken(term)] => LeaseFence { duty: rescue(), term },
        ref other => panic!("expected it to be free, got {other:?}"),
    }
}

/// A write under a lease, as core's page on leases shows it.
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
    let place = Place::shared();
    let engine = Arc::new(place.open().await);
    place.sql("CREATE TABLE windlass.ledger (entry integer)");
    let lease = take(&engine).await;
    let writer = session(&place.direct).await;
    let write = write_under(&lease).replace("windlass.", &format!("{}.", place.schema));
    writer.batch_execute("BEGIN").await.unwrap();
    assert_eq!(writer.execute(&write, &[]).await.unwrap(), 1);

    let heartbeat = Renewal { lease: lease.clone(), metadata: None };
    assert_eq!(engine.renew_leases(&[heartbeat]).await.unwrap(), [Renewed::Kept]);
    assert_eq!(engine.release_leases(&[lease]).await.unwrap(), [Released::Done]);
    let next = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { take(&engine).await }
    });
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.background_job_leases%'",
        place.schema
    );
    eventually("the next term waits", || (place.sql(&waiting) == "1").then_some(()));
    assert!(!next.is_finished());
    writer.batch_execute("COMMIT").await.unwrap();
    next.await.unwrap();
    assert_eq!(writer.execute(&write, &[]).await.unwrap(), 0, "the old term writes nothing");
    assert_eq!(place.count("windlass.ledger"), 1);
}

/// Hears only of leases.
struct Ear(Sender<DutyName>);

impl HintListener for Ear {
    fn hint(&self, hint: Hint) {
        if let Hint::Lease(duty) = hint {
            self.0.try_send(duty).expect("a handful of hints fit in");
        }
    }
}

#[tokio::test]
async fn another_process_hears_at_once_of_a_lease_that_is_given_back_and_of_a_request_to_step_down() {
    let place = Place::shared();
    let deaf = PostgresOptions { listen: false, ..place.options() };
    let (holder, person) = (place.open_with(deaf.clone()).await, place.open_with(deaf).await);
    let waits = place.open_with(PostgresOptions { periods: blind(), ..place.options() }).await;
    let (tells, mut hears) = channel(10);
    let ear: Arc<dyn HintListener> = Arc::new(Ear(tells));
    waits.on_hint(Arc::downgrade(&ear));
    until_listening(&place);

    let lease = take(&holder).await;
    assert_eq!(person.step_down(&rescue()).await.unwrap(), Changed::Done);
    assert_eq!(timeout(PATIENCE, hears.recv()).await.unwrap(), Some(rescue()));
    assert_eq!(holder.release_leases(&[lease]).await.unwrap(), [Released::Done]);
    assert_eq!(timeout(PATIENCE, hears.recv()).await.unwrap(), Some(rescue()));
    take(&waits).await;
}
