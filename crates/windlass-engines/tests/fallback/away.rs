//! The fallback while the primary is unavailable.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::Admin;
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::error::EngineError;
use windlass_core::fallback::SwitchRules;
use windlass_core::job_type::TypeSpec;
use windlass_core::key::KeyClaim;
use windlass_core::lease::{LeaseFence, LeaseRequest, Leases, Renewal, Taking, TermId};
use windlass_core::limits::SPOOL_IDS_FROM;
use windlass_core::names::{DutyName, Key, OrderingKey, TypeName};
use windlass_core::payload::Payload;
use windlass_core::worker::WorkerId;
use windlass_engines::fallback::{FallbackEngine, FallbackOptions, KeysWhileAway};
use windlass_engines::redis::Periods;

use crate::primary::{
    Primary, WAIT_MAX, declaration, job, memory, payloads, put, quick, request, spool, sqlite, status, until,
    until_away, until_replayed, why_ended,
};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn keyed(key: &str) -> NewJob {
    NewJob { key: Some(KeyClaim::new(Key::parse(key).unwrap())), ..job(0) }
}

#[tokio::test]
async fn new_jobs_go_into_the_spool_and_say_so_and_go_to_the_primary_again_when_it_is_back() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    assert!(matches!(put(&engine, job(0)).await, EnqueueAnswer::New(_)));
    primary.go();
    let spooled = spool(&engine, job(1)).await;
    assert!(spooled.0 >= SPOOL_IDS_FROM, "its id shows that it is in the spool");
    until_away(&engine).await;
    assert!(!status(&engine).await.primary_healthy);
    primary.come_back();
    until_replayed(&engine).await;
    assert!(matches!(put(&engine, job(2)).await, EnqueueAnswer::New(_)));
    let told = status(&engine).await;
    assert_eq!((told.switches, told.spooled, told.returned, told.uncertain), (2, 1, 1, 0));
    assert_eq!(payloads(&*primary.store).await, [0, 1, 2]);
    assert!(why_ended(&engine, spooled).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn an_engine_whose_primary_is_not_there_starts_with_the_spool_and_finds_the_primary_later() {
    let primary = Primary::on_redis().await;
    primary.go();
    let engine = primary.with_memory().await;
    assert_eq!(status(&engine).await.active, "memory");
    spool(&engine, job(1)).await;
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(
        payloads(&*primary.store).await,
        [1],
        "and the declarations made meanwhile are declared there"
    );
}

#[tokio::test]
async fn a_primary_that_is_there_and_cannot_be_used_is_an_error_at_the_start() {
    let url = windlass_servers::shared::redis_url().unwrap().replace("redis://", "redis://stranger:secret@");
    let connect: windlass_engines::fallback::Connect = std::sync::Arc::new(move || {
        let url = url.clone();
        Box::pin(async move {
            let engine = windlass_engines::redis::RedisEngine::connect(&url, Default::default()).await?;
            Ok(std::sync::Arc::new(engine) as std::sync::Arc<dyn Engine>)
        })
    });
    let opened = FallbackEngine::open("redis", connect, memory(), quick()).await;
    assert!(matches!(opened, Err(EngineError::Unusable { .. })), "{opened:?}");
}

#[tokio::test]
async fn types_that_only_others_registered_are_taken_into_the_spool() {
    let primary = Primary::on_redis().await;
    let theirs = TypeName::parse("theirs").unwrap();
    let mut known = declaration();
    known.types = vec![TypeSpec::new(theirs.clone(), known.queues[0].name.clone())];
    primary.store.declare(known).await.unwrap();
    let engine = primary.with_memory().await;
    primary.go();
    spool(&engine, NewJob::new(theirs, Payload::default())).await;
}

#[tokio::test]
async fn jobs_with_keys_are_refused_and_nothing_of_them_is_stored() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    let error = engine.enqueue(request(vec![job(1), keyed("a")])).await.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("key a") && error.to_string().contains("accept"), "{error}");
    assert_eq!(status(&engine).await.spool_size, 0);
}

/// The same holds for every option about keys: without the primary, no process knows which job comes before
/// it.
#[tokio::test]
async fn a_job_with_an_ordering_key_is_refused_and_nothing_of_its_batch_is_stored() {
    let primary = Primary::on_redis().await;
    let options = FallbackOptions { keys: KeysWhileAway::Accept, ..quick() };
    let engine = primary.with(memory(), options).await;
    let ordered = || NewJob { ordering_key: Some(OrderingKey::parse("a").unwrap()), ..job(2) };
    put(&engine, ordered()).await.job().unwrap();
    primary.go();
    until_away(&engine).await;
    let error = engine.enqueue(request(vec![job(1), ordered()])).await.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("ordering key a"), "{error}");
    assert_eq!(status(&engine).await.spool_size, 0);
}

#[tokio::test]
async fn jobs_with_keys_that_are_accepted_end_as_duplicates_if_their_key_turns_out_to_be_held() {
    let primary = Primary::on_redis().await;
    let options = FallbackOptions { keys: KeysWhileAway::Accept, ..quick() };
    let engine = primary.with(memory(), options).await;
    let holder = put(&engine, keyed("a")).await.job().unwrap();
    primary.go();
    until_away(&engine).await;
    let (taken, free) = (spool(&engine, keyed("a")).await, spool(&engine, keyed("b")).await);
    assert_eq!(put(&engine, keyed("b")).await, EnqueueAnswer::Duplicate(free), "keys hold within the spool");
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(why_ended(&engine, taken).await, format!("duplicate of job {holder} in redis"));
    assert!(why_ended(&engine, free).await.starts_with("moved to redis as job "));
}

#[tokio::test]
async fn a_spool_takes_no_more_than_it_may_and_says_so() {
    let primary = Primary::on_redis().await;
    let engine = primary.with(memory(), FallbackOptions { spool_max: 2, ..quick() }).await;
    primary.go();
    spool(&engine, job(1)).await;
    spool(&engine, job(2)).await;
    let error = engine.enqueue(request(vec![job(3)])).await.unwrap_err();
    assert!(matches!(error, EngineError::Full { .. }) && error.to_string().contains("at most 2"), "{error}");
}

#[tokio::test]
async fn one_failure_spools_one_job_and_does_not_switch() {
    let primary = Primary::on_redis().await;
    let rules = SwitchRules { failures: 1_000, ..quick().rules };
    let engine = primary.with(memory(), FallbackOptions { rules, ..quick() }).await;
    primary.go();
    spool(&engine, job(1)).await;
    assert_eq!(status(&engine).await.active, "redis");
    primary.come_back();
    until(&engine, "calls reach the primary again", async || {
        matches!(put(&engine, job(2)).await, EnqueueAnswer::New(_))
    })
    .await;
    assert_eq!(status(&engine).await.switches, 0);
}

#[tokio::test]
async fn ten_enqueues_that_one_cut_has_struck_do_not_switch() {
    let primary = Primary::on_redis().await;
    // No check runs within this test, so that none helps or does harm.
    let options = FallbackOptions { rules: SwitchRules::default(), check_every: HOUR, ..quick() };
    let engine = Arc::new(primary.with(memory(), options).await);
    spool_nothing(&engine, 0).await;
    primary.proxy.swallow_answers(true);
    let call = |number| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { put(&engine, job(number)).await })
    };
    let under_way: Vec<_> = (1..=10).map(call).collect();
    until_stored(&primary, 11).await;
    primary.proxy.cut_all();
    primary.proxy.swallow_answers(false);
    for answer in under_way {
        assert!(
            matches!(answer.await.unwrap(), EnqueueAnswer::Spooled(_)),
            "it had no answer, and is queried later"
        );
    }
    spool_nothing(&engine, 11).await;
    let status = status(&engine).await;
    assert_eq!((status.active, status.switches), ("redis", 0));
}

/// Enqueues a job that must go to the primary.
async fn spool_nothing(engine: &FallbackEngine, number: usize) {
    let answer = put(engine, job(number)).await;
    assert!(matches!(answer, EnqueueAnswer::New(_)), "{answer:?}");
}

async fn until_stored(primary: &Primary, jobs: u64) {
    let stored = async {
        while primary.store.queues().await.unwrap()[0].counts.ready < jobs {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_MAX, stored).await.expect("the jobs reach the server");
}

#[tokio::test]
async fn a_primary_that_hangs_is_not_asked_for_counts_while_it_is_away() {
    // A call of the frozen primary gets no answer within an hour.
    let periods = Periods { answer_within: HOUR, heartbeat_within: HOUR, ..Periods::default() };
    let primary = Primary::on_redis_with(periods).await;
    let engine = primary.with_memory().await;
    primary.proxy.freeze(true);
    until_away(&engine).await;
    spool(&engine, job(1)).await;
    let counts = async { (engine.queues().await.unwrap()[0].counts.unfinished(), payloads(&engine).await) };
    let counts = tokio::time::timeout(WAIT_MAX, counts).await.expect("the spool answers, not the primary");
    assert_eq!(counts, (1, vec![1]));
    primary.proxy.freeze(false);
    until_replayed(&engine).await;
}

#[tokio::test]
async fn a_spool_learns_which_queues_are_paused_and_shut() {
    let primary = Primary::on_redis().await;
    primary.store.declare(declaration()).await.unwrap();
    primary.store.pause(&crate::primary::queue(), Some("repairs"), None).await.unwrap();
    primary.store.set_shut(&crate::primary::queue(), true).await.unwrap();
    let spool = memory();
    let engine = primary.with(std::sync::Arc::clone(&spool), quick()).await;
    let learned = spool.queues().await.unwrap().remove(0);
    assert_eq!((learned.pause.unwrap().reason.as_deref(), learned.shut), (Some("repairs"), true));
    engine.resume(&crate::primary::queue()).await.unwrap();
    assert_eq!(
        spool.queues().await.unwrap()[0].pause,
        None,
        "and an act on this engine applies to both stores"
    );
}

#[tokio::test]
async fn a_repeat_of_a_request_that_was_spooled_gets_the_same_answer_on_either_side() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    let request = request(vec![job(1)]);
    let first = engine.enqueue(request.clone()).await.unwrap();
    assert_eq!(engine.enqueue(request.clone()).await.unwrap(), first);
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(engine.enqueue(request.clone()).await.unwrap(), first);
    assert_eq!(engine.receipt(request.request).await.unwrap(), Some(first));
    assert_eq!(payloads(&*primary.store).await, [1]);
}

#[tokio::test]
async fn counts_and_lists_show_both_sides_and_the_spool_alone_while_the_primary_is_away() {
    let primary = Primary::on_redis().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    put(&engine, job(1)).await;
    primary.go();
    until_away(&engine).await;
    let spooled =
        spool(&engine, NewJob { when: windlass_core::enqueue::When::In(Duration::from_secs(600)), ..job(2) })
            .await;
    assert_eq!(engine.queues().await.unwrap()[0].counts.unfinished(), 1);
    assert_eq!(payloads(&engine).await, [2]);
    assert_eq!(engine.job(spooled).await.unwrap().unwrap().job.id, spooled);
}

#[tokio::test]
async fn leases_are_the_primarys_and_never_come_from_the_spool() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let duties = vec![(DutyName::parse("rescue").unwrap(), Duration::from_secs(600))];
    let ask = |bits| LeaseRequest {
        worker: WorkerId::from_random(bits),
        id: TermId::from_random(bits),
        duties: duties.clone(),
    };
    let takings = engine.take_leases(&ask(1)).await.unwrap();
    let [Taking::Taken(term, _)] = takings[..] else { panic!("{takings:?}") };
    let lease = LeaseFence { duty: duties[0].0.clone(), term };
    primary.go();
    spool(&engine, job(1)).await;
    until_away(&engine).await;
    assert!(engine.take_leases(&ask(2)).await.is_err(), "else there would be two leaders, one on each store");
    assert!(engine.renew_leases(&[Renewal { lease: lease.clone(), metadata: None }]).await.is_err());
    assert!(engine.leases_hold(std::slice::from_ref(&lease)).await.is_err());
    assert!(engine.leases().await.is_err());
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(engine.leases_hold(&[lease]).await.unwrap(), [true], "the lease went on in the primary");
}
