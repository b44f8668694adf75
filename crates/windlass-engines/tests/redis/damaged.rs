//! A damaged value must not keep other jobs from being claimed, ended, rescued, released from gates or
//! pruned.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::claim::ClaimRequest;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine, RescueRequest};
use windlass_core::enqueue::{EnqueueRequest, NewJob, When};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::lease_watch::Suspicion;
use windlass_core::names::TypeName;
use windlass_core::outcome::ErrorKind;
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{
    TestStore, WORKER, ask, card, claim, claim_request, claimed, declaration, enqueue, kind, queue, request,
    success,
};

/// Values that may be found where a state should be.
const NO_STATES: [&str; 7] = [
    "",
    "x",
    "w",
    "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww",
    "???????????????????????????????????????",
    "r??????????????????????????????????????",
    // The right length and stage, and an invalid priority.
    "w~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
];

fn write(place: &TestStore, hash: &str, id: JobId, text: &str) {
    let id = format!("{:014}", id.0);
    let hash = place.key(&format!("{hash}:{}", &id[..9]));
    assert_eq!(ask::<i64>(&place.url, &["HSET", &hash, &id, text]), 0, "there was something to damage");
}

/// Opens an engine whose clock stays until a test moves it.
async fn on_a_clock(place: &TestStore) -> (RedisEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let engine = place.ready_with(RedisOptions { clock: Some(clock.clone()), ..place.options() }).await;
    (engine, clock)
}

/// Asserts that the job can still be read, and that its error says why it is dead.
async fn assert_given_up(engine: &RedisEngine, id: JobId, what: &str) {
    let record = engine.job(id).await.unwrap().expect("the job can still be read");
    let StoredState::Dead { error, .. } = record.state else { panic!("{what:?}: {:?}", record.state) };
    assert_eq!(error.kind, ErrorKind::Undecodable, "{what:?}: {error:?}");
}

async fn claimed_ids(engine: &RedisEngine) -> Vec<JobId> {
    claim(engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect()
}

#[tokio::test]
async fn a_job_whose_state_cannot_be_read_is_given_up_and_the_others_are_claimed() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        write(&place, "state", ids[1], what);
        assert!(engine.job(ids[1]).await.unwrap().is_some(), "the job can be read before that, too");
        assert_eq!(claimed_ids(&engine).await, [ids[0], ids[2]], "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
        let counts = engine.queues().await.unwrap().remove(0).counts;
        assert_eq!((counts.ready, counts.running, counts.dead_letters), (0, 2, 1), "{what:?}: {counts:?}");
    }
}

#[tokio::test]
async fn a_job_whose_body_cannot_be_read_is_given_up_and_the_others_are_claimed() {
    for what in ["", "x", "\n{\n{}", "\n[1]\n{}"] {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        write(&place, "body", ids[1], what);
        assert_eq!(claimed_ids(&engine).await, [ids[0], ids[2]], "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn a_purge_gives_up_what_it_cannot_read_and_cancels_the_others() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        write(&place, "state", ids[1], what);
        let done = engine.purge(&queue(), 100).await.unwrap();
        assert_eq!((done.changed, done.more), (2, false), "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn a_sweep_gives_up_what_it_cannot_read_and_parks_the_others() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let engine = place.open_with(place.options()).await;
        engine.declare(declaration()).await.unwrap();
        let other = TypeName::parse("other").unwrap();
        let types = vec![TypeSpec::new(other.clone(), queue())];
        engine.declare(Declaration { queues: vec![], types }).await.unwrap();
        engine.register(WorkerCard { types: vec![other], ..card(WORKER) }).await.unwrap();
        let ids = enqueue(&engine, 3).await;
        write(&place, "state", ids[1], what);
        let done = engine.sweep(100).await.unwrap();
        assert_eq!((done.changed, done.more), (2, false), "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn what_cannot_be_read_does_not_keep_others_from_expiring() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let (engine, clock) = on_a_clock(&place).await;
        let expires = Some(When::In(Duration::from_secs(5)));
        let fleeting = NewJob { expires, ..NewJob::new(kind(), Payload::default()) };
        let jobs = EnqueueRequest { jobs: vec![fleeting; 3], ..request(0) };
        let answers = engine.enqueue(jobs).await.unwrap();
        let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
        write(&place, "state", ids[1], what);
        clock.advance(Duration::from_secs(10));
        let done = engine.sweep(100).await.unwrap();
        assert_eq!((done.changed, done.more), (2, false), "{what:?}");
        assert_eq!(claimed_ids(&engine).await, [], "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn a_prune_deletes_what_it_cannot_read_like_everything_that_is_old() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let (engine, clock) = on_a_clock(&place).await;
        let ids = enqueue(&engine, 3).await;
        let ends = claim(&engine, 3).await.into_iter().map(success).collect();
        engine.settle(ends).await.unwrap();
        write(&place, "state", ids[1], what);
        clock.advance(Duration::from_secs(8 * 24 * 60 * 60));
        assert!(engine.prune(100).await.unwrap().changed >= 3, "{what:?}");
        for id in ids {
            assert_eq!(engine.job(id).await.unwrap(), None, "{what:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_does_not_keep_others_behind_a_gate() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        let gate = Gate::named("breaker:shop");
        let park = || Transition::Park { gate: gate.clone() };
        let parked = claim(&engine, 3).await.into_iter();
        let parked = parked.map(|claimed| claimed.settled(park(), AttemptReport::default())).collect();
        engine.settle(parked).await.unwrap();
        write(&place, "state", ids[1], what);
        assert!(!engine.open_gate(&gate, 100).await.unwrap().more, "{what:?}");
        assert_eq!(claimed_ids(&engine).await, [ids[0], ids[2]], "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn what_was_damaged_while_it_ran_does_not_spoil_the_ends_of_others() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let engine = place.ready().await;
        let ids = enqueue(&engine, 3).await;
        let ends = claim(&engine, 3).await.into_iter().map(success).collect();
        write(&place, "state", ids[1], what);
        let settled = engine.settle(ends).await.unwrap();
        assert_eq!(settled, [Settled::Applied, Settled::ClaimLost, Settled::Applied], "{what:?}");
        engine.retire(WORKER).await.unwrap();
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn a_rescue_gives_up_what_it_cannot_read_and_takes_the_others_back() {
    for what in NO_STATES {
        let place = TestStore::shared();
        let (engine, clock) = on_a_clock(&place).await;
        let ids = enqueue(&engine, 3).await;
        claim(&engine, 3).await;
        write(&place, "state", ids[1], what);
        clock.advance(Duration::from_secs(60));
        let silent = vec![Suspicion { worker: WORKER, beats: 0 }];
        let rescued = engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 500 }).await.unwrap();
        assert_eq!(rescued.returned, [ids[0], ids[2]], "{what:?}");
        assert_given_up(&engine, ids[1], what).await;
    }
}

#[tokio::test]
async fn a_worker_whose_row_is_damaged_is_seen_all_the_same_and_its_jobs_are_taken_back() {
    const NAME: &str = "0123456789abcdef";
    let victim = WorkerId::from_bytes(NAME.as_bytes().try_into().unwrap());
    for field in ["card", "since", "beats", "last_heartbeat", "expires"] {
        let place = TestStore::shared();
        let (engine, clock) = on_a_clock(&place).await;
        engine.register(card(victim)).await.unwrap();
        let ids = enqueue(&engine, 1).await;
        let request = ClaimRequest { worker: victim, ..claim_request(1) };
        assert_eq!(claimed(engine.claim(request).await.unwrap()).len(), 1);
        ask::<i64>(&place.url, &["HSET", &place.key(&format!("worker:{NAME}")), field, "?"]);
        engine.sweep(10).await.unwrap();
        clock.advance(Duration::from_secs(60));
        let seen = engine.workers().await.unwrap().into_iter().find(|seen| seen.card.id == victim).unwrap();
        assert!(seen.expired && seen.running == 1, "{field}: {seen:?}");
        let silent = vec![Suspicion { worker: victim, beats: seen.beats }];
        let rescued = engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 500 }).await.unwrap();
        assert_eq!(rescued.returned, ids, "{field}");
    }
}

#[tokio::test]
async fn a_damaged_declaration_is_told_and_what_was_enqueued_before_is_claimed() {
    let place = TestStore::shared();
    let ids = enqueue(&place.ready().await, 1).await;
    ask::<i64>(&place.url, &["HSET", &place.key("queues"), "main", "{"]);
    ask::<i64>(&place.url, &["HSET", &place.key("types"), "work", "1 {"]);
    let engine = place.open_with(place.options()).await;
    assert_eq!(claimed_ids(&engine).await, ids);
    let (types, queues) = (engine.types().await.unwrap(), engine.queues().await.unwrap());
    assert!(types.iter().any(|known| known.unreadable.is_some()), "{types:?}");
    assert!(queues.iter().any(|queue| queue.unreadable.is_some()), "{queues:?}");
    engine.sweep(10).await.unwrap();
}

#[tokio::test]
async fn a_count_that_is_none_starts_over() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    ask::<i64>(&place.url, &["HSET", &place.key("counts"), "1:enqueued", "many"]);
    let ids = enqueue(&engine, 2).await;
    assert_eq!(claimed_ids(&engine).await, ids);
    let queue = engine.queues().await.unwrap().remove(0);
    assert_eq!((queue.totals.enqueued, queue.counts.running), (2, 2));
}

#[tokio::test]
async fn a_dead_letter_of_a_damaged_job_is_listed_and_can_be_discarded() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let ids = enqueue(&engine, 1).await;
    write(&place, "state", ids[0], "x");
    engine.purge(&queue(), 10).await.unwrap();
    let dead = windlass_core::admin::ListRequest {
        job_state: Some(JobState::Dead),
        limit: 10,
        ..Default::default()
    };
    assert_eq!(engine.list(dead.clone()).await.unwrap().len(), 1);
    engine.discard(ids[0]).await.unwrap();
    assert_eq!(engine.list(dead).await.unwrap(), []);
}

#[tokio::test]
async fn a_script_that_stops_half_way_leaves_open_what_happened() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    // The key of the receipts has a value of another type: jobs are written before the receipts.
    ask::<()>(&place.url, &["SET", &place.key("answers"), "x"]);
    let error = engine.enqueue(request(1)).await.unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
}

#[tokio::test]
async fn the_numbers_of_what_a_script_stored_before_it_stopped_are_not_given_again() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let first = enqueue(&engine, 1).await[0];
    let lanes: Vec<String> = ask(&place.url, &["KEYS", &place.key("ready*")]);
    let lane = lanes.iter().find(|name| ask::<String>(&place.url, &["TYPE", name]) == "zset").unwrap();
    ask::<()>(&place.url, &["SET", lane, "x"]);
    let error = engine.enqueue(request(1)).await.unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    ask::<i64>(&place.url, &["DEL", lane]);
    let next = enqueue(&engine, 1).await[0];
    assert_eq!(next.0, first.0 + 2, "the job between them may be stored in part");
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_leaves_the_answer_unknown_and_makes_no_second_job() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    for what in ["nonsense", "n1+0", "n9223372036854775807+9", "n1+9223372036854775807"] {
        let request = request(1);
        engine.enqueue(request.clone()).await.unwrap();
        let (answers, name) = (place.key("answers"), request.request.to_string());
        ask::<i64>(&place.url, &["HSET", &answers, &name, what]);
        assert_unknown(&engine, &request, what).await;
        ask::<i64>(&place.url, &["HDEL", &answers, &name]);
        assert_unknown(&engine, &request, "nothing").await;
    }
    assert_eq!(engine.queues().await.unwrap().remove(0).totals.enqueued, 4);
}

async fn assert_unknown(engine: &RedisEngine, request: &EnqueueRequest, what: &str) {
    let error = engine.enqueue(request.clone()).await.unwrap_err();
    assert!(error.is_unknown(), "{what}: {error:?}");
    let error = engine.ask(request.request).await.unwrap_err();
    assert!(error.is_unknown(), "{what}: {error:?}");
}
