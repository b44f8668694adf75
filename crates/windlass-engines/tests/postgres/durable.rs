//! An answered change survives a power cut. The tests read, on the server, which durability the commit of
//! each change to a job waited for.

use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::engine::{Admin, Declaration, Engine, RescueRequest};
use windlass_core::enqueue::NewJob;
use windlass_core::gate::Gate;
use windlass_core::job::Progress;
use windlass_core::job_type::TypeSpec;
use windlass_core::lease_watch::Suspicion;
use windlass_core::names::{OrderingKey, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};

use super::locks::keyed;
use super::workers::words::declaration;
use super::{TestStore, WORKER, card, claim_request, claimed, kind, new_job, queue, request};

fn forgetful() -> TypeName {
    TypeName::parse("forgetful").unwrap()
}

/// Opens an engine on a schema that records each change of a job except claims: claims may be lost in the
/// server's last moments.
async fn watched(place: &TestStore, options: PostgresOptions) -> PostgresEngine {
    let engine = place.open_with(options).await;
    let traces = TypeSpec { retention_days: 0, ..TypeSpec::new(forgetful(), queue()) };
    let declared = Declaration { types: vec![TypeSpec::new(kind(), queue()), traces], ..declaration() };
    engine.declare(declared).await.unwrap();
    engine.register(card(WORKER)).await.unwrap();
    place.sql(
        "CREATE TABLE windlass.seen (setting text);
         CREATE FUNCTION windlass.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF TG_OP <> 'UPDATE' OR NEW.token IS NULL OR NEW.token IS NOT DISTINCT FROM OLD.token THEN
                 INSERT INTO windlass.seen VALUES (current_setting('synchronous_commit'));
             END IF;
             RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON windlass.delayed_jobs
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION windlass.see()",
    );
    engine
}

/// Asserts that something has changed since the last check, and that all of it had to be on disk before it
/// was answered.
fn assert_on_disk(place: &TestStore, what: &str) {
    let settings = "WITH seen AS (DELETE FROM windlass.seen RETURNING setting)
        SELECT string_agg(DISTINCT setting, ' ') FROM seen";
    assert_eq!(place.sql(settings), "on", "{what}");
}

async fn put_in_and_claim(place: &TestStore, engine: &PostgresEngine, job: NewJob) -> Claimed {
    engine.enqueue(request(vec![job])).await.unwrap();
    assert_on_disk(place, "a new job");
    let request = ClaimRequest { types: vec![kind(), forgetful()], ..claim_request(WORKER, 1) };
    claimed(engine.claim(request).await.unwrap()).remove(0)
}

async fn settle(engine: &PostgresEngine, claimed: Claimed, transition: &Transition) {
    let end = claimed.settled(transition.clone(), AttemptReport::default());
    assert_eq!(engine.settle(vec![end]).await.unwrap(), [Settled::Applied]);
}

async fn every_success_is_on_disk(place: &TestStore, engine: &PostgresEngine) {
    let success = Transition::Succeed { result: None };
    let fleeting = NewJob::new(forgetful(), Payload::default());
    let in_order = NewJob { ordering_key: Some(OrderingKey::parse("a").unwrap()), ..new_job() };
    for (what, job) in [
        ("a success", new_job()),
        ("with a key", keyed("a")),
        ("the next with a key", keyed("b")),
        ("in an ordering key", in_order),
        ("that leaves nothing", fleeting.clone()),
        ("after one that left nothing", fleeting),
    ] {
        let claimed = put_in_and_claim(place, engine, job).await;
        settle(engine, claimed, &success).await;
        assert_on_disk(place, what);
    }
    let claimed = put_in_and_claim(place, engine, new_job()).await;
    engine.cancel(claimed.job.id, "enough").await.unwrap();
    assert_on_disk(place, "a request to stop");
    let progress = Progress { percent: 50, note: None };
    engine.report(vec![(claimed.fence(), progress)]).await.unwrap();
    assert_on_disk(place, "a stored progress");
    settle(engine, claimed, &success).await;
    assert_on_disk(place, "an end after a request to stop");
}

async fn every_other_end_is_on_disk(place: &TestStore, engine: &PostgresEngine) {
    let error = || JobError::new(ErrorKind::Failed, "oops");
    let after = std::time::Duration::from_secs(3600);
    for transition in [
        Transition::Retry { after, error: error() },
        Transition::Snooze { after },
        Transition::Park { gate: Gate::named("test:gate") },
        Transition::Release { started: true },
        Transition::Release { started: false },
        Transition::Bury { error: error() },
        Transition::Cancel { why: "enough".to_owned() },
    ] {
        for job in [new_job(), keyed("c")] {
            let claimed = put_in_and_claim(place, engine, job).await;
            let id = claimed.job.id;
            settle(engine, claimed, &transition).await;
            assert_on_disk(place, &format!("{transition:?}"));
            match transition {
                Transition::Bury { .. } => {
                    engine.retry(id).await.unwrap();
                    assert_on_disk(place, "a dead letter that is started over");
                    engine.cancel(id, "over").await.unwrap();
                    assert_on_disk(place, "a cancel");
                }
                Transition::Cancel { .. } => {}
                _ => {
                    engine.cancel(id, "over").await.unwrap();
                    assert_on_disk(place, "a cancel");
                }
            }
        }
    }
}

async fn what_is_done_about_jobs_in_general_is_on_disk(place: &TestStore, engine: &PostgresEngine) {
    let claimed = put_in_and_claim(place, engine, new_job()).await;
    let gate = Gate::named("test:gate");
    settle(engine, claimed, &Transition::Park { gate: gate.clone() }).await;
    assert_on_disk(place, "a parked job");
    assert_eq!(engine.open_gate(&gate, 1).await.unwrap().changed, 1);
    assert_on_disk(place, "an opened gate");
    assert_eq!(engine.purge(&queue(), 10).await.unwrap().changed, 1);
    assert_on_disk(place, "a purge");
    put_in_and_claim(place, engine, new_job()).await;
    place.sql("UPDATE windlass.workers SET expires_at = expires_at - interval '1 hour'");
    let silent = vec![Suspicion { worker: WORKER, beats: 0 }];
    let rescued = engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 10 }).await.unwrap();
    assert_eq!(rescued.returned.len(), 1);
    assert_on_disk(place, "a rescue");
}

async fn all_that_is_answered_is_on_disk(pooled: bool) {
    let place = TestStore::shared();
    let engine = watched(&place, PostgresOptions { pooled, ..place.options() }).await;
    every_success_is_on_disk(&place, &engine).await;
    every_other_end_is_on_disk(&place, &engine).await;
    what_is_done_about_jobs_in_general_is_on_disk(&place, &engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_about_a_job_is_on_disk() {
    all_that_is_answered_is_on_disk(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_about_a_job_is_on_disk_where_no_session_is_ours() {
    all_that_is_answered_is_on_disk(true).await;
}
