//! A damaged row must not keep other rows from being claimed, shown, rescued or pruned.

use std::time::Duration;

use windlass_core::admin::{CancelAnswer, ListRequest};
use windlass_core::claim::{ClaimRequest, Suspects};
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::key::KeyClaim;
use windlass_core::names::{FairnessKey, Key};
use windlass_core::outcome::ErrorKind;
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::PostgresEngine;

use super::{
    TestStore, card, claim, claim_request, claimed, declare, enqueue, new_job, on_a_clock, request, rescue,
};

/// Damages a job that has not ended; the constraints of the schema are removed first, since they would
/// prevent the damage.
fn damage(place: &TestStore, id: JobId, what: &str) {
    let free = "ALTER TABLE windlass.delayed_jobs DROP CONSTRAINT IF EXISTS delayed_jobs_priority_check";
    place.sql(&format!("{free}; UPDATE windlass.delayed_jobs SET {what} WHERE id = {}", id.0));
}

async fn job_state(engine: &PostgresEngine, id: JobId) -> JobState {
    engine.job(id).await.unwrap().expect("the job can still be read").job_state()
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_given_up_and_the_others_are_claimed() {
    let damages = [
        "options = '{'",
        "tags = 'nonsense'",
        "correlation = ''",
        "job_group = chr(1)",
        "key = ''",
        "progress = '}'",
        "last_error = ''",
        "failures = -1",
        "job_type = 'not.registered'",
        "job_type = 'no name at all'",
    ];
    for what in damages {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        damage(&place, ids[1], what);
        let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
        assert_eq!(claimed, [ids[0], ids[2]], "{what}");
        let record = engine.job(ids[1]).await.unwrap().expect("the job can still be read");
        let StoredState::Dead { error, .. } = record.state else { panic!("{what}: {:?}", record.state) };
        assert_eq!(error.kind, ErrorKind::Undecodable, "{what}: {error:?}");
    }
}

#[tokio::test]
async fn a_row_at_an_end_of_what_can_be_counted_keeps_no_job_from_being_claimed() {
    // Each damage, and whether the job itself is claimed: a job that is due at infinity is held back, since
    // its writer intended that.
    let damages = [
        ("scheduled_at = '-infinity'", true),
        ("scheduled_at = 'infinity'", false),
        ("scheduled_at = '294276-12-31'", false),
        ("attempts = 2147483647", true),
    ];
    for (what, is_claimed) in damages {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        damage(&place, ids[1], what);
        let mut claimed: Vec<_> =
            claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
        claimed.sort_unstable();
        let expected = if is_claimed { ids.clone() } else { vec![ids[0], ids[2]] };
        assert_eq!(claimed, expected, "{what}");
        let record = engine.job(ids[1]).await.unwrap().expect("the job can still be read");
        assert!(!record.job.due.to_string().is_empty(), "{what}");
        assert_eq!(claim(&engine, 10).await.len(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_due_time_at_an_end_of_time_keeps_no_gate_shut() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    damage(&place, ids[0], "scheduled_at = '-infinity'");
    damage(&place, ids[1], "scheduled_at = 'infinity'");
    place.sql("UPDATE windlass.delayed_jobs SET gate = 'rate:a'");
    let opened = engine.open_gate(&Gate::named("rate:a"), 10).await.unwrap();
    assert_eq!(opened.changed, 3);
    let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, [ids[0], ids[2]]);
}

#[tokio::test]
async fn a_priority_that_no_claim_asks_for_ends_as_a_dead_letter_with_the_next_sweep() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let ids = enqueue(&engine, 4).await;
    damage(&place, ids[1], "priority = 99");
    damage(&place, ids[2], "priority = -1");
    let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, [ids[0], ids[3]]);
    engine.sweep(100).await.unwrap();
    for id in [ids[1], ids[2]] {
        let record = engine.job(id).await.unwrap().unwrap();
        let StoredState::Dead { error, .. } = record.state else { panic!("{:?}", record.state) };
        assert_eq!(error.kind, ErrorKind::Undecodable, "{error:?}");
    }
    let counts = engine.queues().await.unwrap().remove(0).counts;
    assert_eq!((counts.ready, counts.running, counts.dead_letters), (0, 2, 2), "{counts:?}");
}

#[tokio::test]
async fn damaged_rows_can_be_listed() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    place.sql("UPDATE windlass.delayed_jobs SET options = '{', last_error = '}'");
    let page = engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap();
    assert_eq!(page.len(), 2);
    assert!(page.iter().all(|record| record.job_state() == JobState::Ready));
}

#[tokio::test]
async fn a_damaged_declaration_is_told_and_what_was_enqueued_before_is_claimed() {
    let place = TestStore::shared();
    enqueue(&place.ready().await, 1).await;
    place.sql("UPDATE windlass.queues SET spec = '{'; UPDATE windlass.job_types SET spec = ''");
    let engine = place.open().await;
    assert_eq!(claim(&engine, 1).await.len(), 1);
    let (types, queues) = (engine.types().await.unwrap(), engine.queues().await.unwrap());
    assert!(types.iter().any(|known| known.unreadable.is_some()), "{types:?}");
    assert!(queues.iter().any(|queue| queue.unreadable.is_some()), "{queues:?}");
    engine.sweep(10).await.unwrap();
}

#[tokio::test]
async fn a_rescue_takes_back_what_was_damaged_and_the_next_claim_gives_it_up() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let ids = enqueue(&engine, 2).await;
    claim(&engine, 2).await;
    damage(&place, ids[0], "options = '{'");
    assert_eq!(rescue(&engine, &clock).await, ids);
    let other = WorkerId::from_random(7);
    engine.register(card(other)).await.unwrap();
    let mut given = Vec::new();
    for _ in 0..2 {
        let suspects = Suspects::One { crashes_max: 3 };
        let request = ClaimRequest { suspects, ..claim_request(other, 1) };
        given.extend(claimed(engine.claim(request).await.unwrap()));
    }
    assert_eq!(given.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(job_state(&engine, ids[0]).await, JobState::Dead);
}

#[tokio::test]
async fn a_job_whose_key_has_lost_its_row_is_rescued_and_expires_like_any_other() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let keyed = |key| NewJob { key: Some(KeyClaim::new(Key::parse(key).unwrap())), ..new_job() };
    let held = engine.enqueue(request(vec![keyed("held")])).await.unwrap()[0].job().unwrap();
    claim(&engine, 1).await;
    let fleeting = NewJob { expires: Some(When::In(Duration::from_secs(5))), ..keyed("fleeting") };
    let late = engine.enqueue(request(vec![fleeting])).await.unwrap()[0].job().unwrap();
    place.sql("DELETE FROM windlass.job_keys");
    assert_eq!(rescue(&engine, &clock).await, [held]);
    engine.sweep(10).await.unwrap();
    assert_eq!(job_state(&engine, late).await, JobState::Cancelled);
}

#[tokio::test]
async fn a_row_that_cannot_be_written_does_not_keep_others_from_being_rescued() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let ids = enqueue(&engine, 50).await;
    claim(&engine, 50).await;
    place.sql(&format!("ALTER TABLE windlass.attempts ADD CHECK (job <> {})", ids[20].0));
    let returned = rescue(&engine, &clock).await;
    assert_eq!(returned.len(), 49, "{returned:?}");
    assert!(!returned.contains(&ids[20]));
}

#[tokio::test]
async fn a_row_that_cannot_be_written_does_not_keep_others_from_expiring_or_from_being_claimed() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let fleeting = NewJob { expires: Some(When::In(Duration::from_secs(5))), ..new_job() };
    let answers = engine.enqueue(request(vec![fleeting; 20])).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
    place.sql(&format!("ALTER TABLE windlass.job_history ADD CHECK (id <> {})", ids[7].0));
    clock.advance(Duration::from_secs(10));
    let fresh = enqueue(&engine, 4).await;
    let mut claimed: Vec<_> = claim(&engine, 2).await.into_iter().map(|claimed| claimed.job.id).collect();
    for _ in 0..2 {
        claimed.extend(claim(&engine, 1).await.into_iter().map(|claimed| claimed.job.id));
    }
    assert_eq!(claimed, fresh, "also by a claim of one job at a time");
    engine.sweep(100).await.unwrap();
    for id in ids.iter().filter(|id| **id != ids[7]) {
        assert_eq!(job_state(&engine, *id).await, JobState::Cancelled);
    }
}

#[tokio::test]
async fn in_a_queue_with_fairness_keys_too_one_that_cannot_be_ended_keeps_no_job_from_being_claimed_one_at_a_time()
 {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let of = |fairness_key: &str| NewJob {
        fairness_key: Some(FairnessKey::parse(fairness_key).unwrap()),
        ..new_job()
    };
    let fleeting = NewJob { expires: Some(When::In(Duration::from_secs(5))), ..of("a") };
    let stuck = engine.enqueue(request(vec![fleeting])).await.unwrap()[0].job().unwrap();
    place.sql(&format!("ALTER TABLE windlass.job_history ADD CHECK (id <> {})", stuck.0));
    clock.advance(Duration::from_secs(10));
    engine.enqueue(request(vec![of("a"), of("b"), of("a"), of("b")])).await.unwrap();
    for n in 1..=4 {
        let claimed = claim(&engine, 1).await;
        assert!(claimed.len() == 1 && claimed[0].job.id != stuck, "claim {n}: {claimed:?}");
    }
    assert_eq!(claim(&engine, 1).await, []);
}

#[tokio::test]
async fn declarations_of_others_do_not_disturb() {
    let place = TestStore::shared();
    let engine = place.open().await;
    declare(&engine).await;
    declare(&place.open().await).await;
    assert_eq!(enqueue(&engine, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rescuer_waits_for_no_lock_and_takes_no_job_from_the_live_worker_that_has_it_by_now() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let id = enqueue(&engine, 1).await[0];
    claim(&engine, 1).await;
    let other = WorkerId::from_random(0xbeef);
    engine.register(card(other)).await.unwrap();

    // Another session has locked the row, and writes what a second rescuer and a claim would write.
    let session = super::session(&place.url).await;
    let schema = &place.schema;
    let lock = format!("BEGIN; SELECT 1 FROM {schema}.delayed_jobs WHERE id = {} FOR UPDATE", id.0);
    session.batch_execute(&lock).await.unwrap();
    assert_eq!(rescue(&engine, &clock).await, [], "a locked row is left alone, and no session waits for it");
    let taken = format!(
        "UPDATE {schema}.delayed_jobs SET locked_by = (SELECT id FROM {schema}.workers WHERE died IS NULL), \
         token = '00000000-0000-0000-0000-000000000001', attempts = 2; COMMIT"
    );
    session.batch_execute(&taken).await.unwrap();
    assert_eq!(rescue(&engine, &clock).await, [], "nothing is left to rescue");
    assert_eq!(job_state(&engine, id).await, JobState::Running);
}

/// No call deletes a type, but nothing prevents an operator from doing it.
#[tokio::test]
async fn jobs_whose_type_was_deleted_leave_a_history_however_they_end() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let keyed = NewJob { key: Some(KeyClaim::new(Key::parse("a").unwrap())), ..new_job() };
    let jobs = vec![new_job(), keyed, new_job(), new_job(), new_job()];
    engine.enqueue(request(jobs)).await.unwrap();
    let running = claim(&engine, 4).await;
    place.sql("DELETE FROM windlass.job_types");
    let [plain, keyed, stopped, own] = &running[..] else { panic!("four run: {running:?}") };
    assert_eq!(engine.cancel(stopped.job.id, "no").await.unwrap(), CancelAnswer::Requested);
    let end = |one: &windlass_core::claim::Claimed| {
        one.clone().settled(Transition::Succeed { result: None }, AttemptReport::default())
    };
    for one in [plain, keyed, stopped] {
        assert_eq!(engine.settle(vec![end(one)]).await.unwrap(), [Settled::Applied]);
    }
    let complete =
        format!("SELECT windlass.complete(id, token) FROM windlass.delayed_jobs WHERE id = {}", own.job.id.0);
    assert_eq!(place.sql(&complete), "t");
    let waiting = JobId(own.job.id.0 + 1);
    assert_eq!(engine.cancel(waiting, "no").await.unwrap(), CancelAnswer::Cancelled);
    let kept =
        "SELECT string_agg(state::text, '' ORDER BY id), bool_and(keep_until - ended_at = interval '7 days')
        FROM windlass.job_history";
    assert_eq!(place.sql(kept), "11212|t");
    assert_eq!(job_state(&engine, waiting).await, JobState::Cancelled);
    assert_eq!(job_state(&engine, own.job.id).await, JobState::Succeeded);
    assert_eq!(place.count("windlass.delayed_jobs"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_cannot_be_read_leaves_the_answer_unknown_and_makes_no_second_job() {
    // In the second damage, the id of the new job is gone.
    for what in ["answers = '{'", "answers = '[null]', ids = NULL"] {
        let place = TestStore::shared();
        let (engine, _) = on_a_clock(&place).await;
        let keyed = NewJob { key: Some(KeyClaim::new(Key::parse("mine").unwrap())), ..new_job() };
        for new in [new_job(), keyed] {
            let request = request(vec![new]);
            engine.enqueue(request.clone()).await.unwrap();
            place.sql(&format!("UPDATE windlass.receipts SET {what}"));
            let error = engine.enqueue(request.clone()).await.unwrap_err();
            assert!(error.is_unknown(), "{what}: {error:?}");
            let error = engine.ask(request.request).await.unwrap_err();
            assert!(error.is_unknown(), "{what}: {error:?}");
        }
        assert_eq!(engine.queues().await.unwrap()[0].totals.enqueued, 2, "{what}");
    }
}
