//! Completion triggers on Redis only: an evaluation reads a limited number of jobs one by one, and counts
//! where there are more.

use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::key::KeyClaim;
use windlass_core::limits::TRIGGER_PAUSE;
use windlass_core::names::{Key, TriggerName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::triggers::acts::{declare, fire};
use windlass_core::triggers::{CompletionTrigger, TriggerFired, Watched, WhichTriggers};

use crate::test_store::{Store, claim_one, clock, evaluate_all, put, register, succeed};
use crate::words::{declaration, kind, queue, request};

/// More hooks than are read one by one.
const HOOKS: usize = 520;

/// Enqueues jobs as the trigger would have enqueued them.
async fn put_hooks(store: &Store, engine: &dyn Engine) {
    let hook = |n| NewJob {
        key: Some(KeyClaim::new(Key::parse(&format!("trigger/own/{n}")).unwrap())),
        ..NewJob::new(kind(), Payload::default())
    };
    let put = engine.enqueue(request((0..HOOKS).map(hook).collect())).await.unwrap();
    let ids = put.iter().map(|put| match put {
        EnqueueAnswer::New(id) => format!("{:014}", id.0),
        other => panic!("expected a new job, got {other:?}"),
    });
    let Store::Redis(url, namespace) = store else { panic!("it is Redis") };
    let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let own = format!("{{{namespace}}}:trigger_jobs:own");
    redis::cmd("SADD").arg(own).arg(ids.collect::<Vec<_>>()).exec(&mut connection).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_behind_very_many_hooks_holds_the_trigger_and_those_alone_do_not() {
    let (store, clock) = (Store::redis(), clock());
    let engine = store.open(&clock).await;
    engine.declare(declaration()).await.unwrap();
    let name = TriggerName::parse("own").unwrap();
    let spec = CompletionTrigger::new(name, Watched::Queue(queue()), JobTemplate::new(kind()));
    let change = declare(&spec, Origin::Code, None, engine.now().await.unwrap()).unwrap();
    engine.change_triggers(&[change]).await.unwrap();
    let worker = register(&engine).await;
    put(&engine, 1).await;
    let claimed = claim_one(&engine, worker).await;
    put_hooks(&store, &*engine).await;
    let behind = engine.enqueue(request(vec![NewJob::new(kind(), Payload::default())])).await.unwrap();
    succeed(&engine, claimed).await;
    let evaluate = async || {
        clock.advance(TRIGGER_PAUSE);
        let read = engine.triggers(&WhichTriggers::Marked(10)).await.unwrap();
        let firings: Vec<_> = read.triggers.iter().map(|trigger| fire(trigger, read.now)).collect();
        engine.fire_triggers(&firings).await.unwrap()
    };
    assert_eq!(evaluate().await, [TriggerFired::Held]);
    let behind = behind[0].job().unwrap();
    engine.cancel(behind, "never mind").await.unwrap();
    let fired = evaluate().await;
    assert!(matches!(fired[..], [TriggerFired::Fired { .. }]), "{fired:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_forgets_the_hooks_that_are_dead_letters() {
    let (store, clock) = (Store::redis(), clock());
    let engine = store.open(&clock).await;
    engine.declare(declaration()).await.unwrap();
    let name = TriggerName::parse("own").unwrap();
    let spec = CompletionTrigger::new(name, Watched::Queue(queue()), JobTemplate::new(kind()));
    let change = declare(&spec, Origin::Code, None, engine.now().await.unwrap()).unwrap();
    engine.change_triggers(&[change]).await.unwrap();
    let worker = register(&engine).await;
    for _ in 0..3 {
        put(&engine, 1).await;
        let claimed = claim_one(&engine, worker).await;
        succeed(&engine, claimed).await;
        assert_eq!(evaluate_all(&engine, &clock).await, 1);
        let hook = claim_one(&engine, worker).await;
        let dead = Transition::Bury { error: JobError::new(ErrorKind::Failed, "on purpose") };
        engine.settle(vec![hook.settled(dead, AttemptReport::default())]).await.unwrap();
    }
    let Store::Redis(url, namespace) = &store else { panic!("it is Redis") };
    let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let own = format!("{{{namespace}}}:trigger_jobs:own");
    let kept: u64 = redis::cmd("SCARD").arg(own).query(&mut connection).unwrap();
    assert_eq!(kept, 1, "the job that died after the last evaluation");
}
