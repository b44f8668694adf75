use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::Changed;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Suspects};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId};
use windlass_core::limits::TRIGGER_PAUSE;
use windlass_core::names::{QueueName, TriggerName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::triggers::CompletionTrigger;
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::memory::MemoryEngine;

use super::duty::TriggerDuty;
use super::shell::TriggerPoller;
use super::{CompletionTriggers, TriggersError};
use crate::alerts::{Alert, Alerts};
use crate::schedules::Declared;
use crate::{TypeSpec, Watched};

struct Scenario {
    clock: Arc<ManualClock>,
    engine: Arc<dyn Engine>,
    triggers: CompletionTriggers,
    worker: WorkerId,
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

fn type_name(name: &str) -> TypeName {
    TypeName::parse(name).unwrap()
}

fn name(text: &str) -> TriggerName {
    TriggerName::parse(text).unwrap()
}

fn spec(called: &str, job_type: &str) -> CompletionTrigger {
    CompletionTrigger::new(name(called), Watched::Queue(queue("main")), JobTemplate::new(type_name(job_type)))
}

impl Scenario {
    async fn new() -> Self {
        let start = Timestamp::parse("2027-06-01T09:00:00Z").unwrap();
        let clock = Arc::new(ManualClock::starting_at(start));
        let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
        Self::on(engine, clock).await
    }

    async fn on(engine: Arc<dyn Engine>, clock: Arc<ManualClock>) -> Self {
        let queues = ["main", "hooks"].map(|name| QueueSpec::new(queue(name))).to_vec();
        let types = vec![
            TypeSpec::new(type_name("work"), queue("main")),
            TypeSpec::new(type_name("hook"), queue("hooks")),
        ];
        engine.declare(Declaration { queues, types }).await.unwrap();
        let worker = WorkerId::from_random(1);
        let card = WorkerCard {
            id: worker,
            host: "here".to_owned(),
            pid: 1,
            version: "0".to_owned(),
            queues: vec![queue("main")],
            types: vec![type_name("work")],
            duties: Vec::new(),
            slots: 1,
            lease: Duration::from_secs(3600),
        };
        engine.register(card).await.unwrap();
        Self { clock, triggers: CompletionTriggers::new(Arc::clone(&engine)), engine, worker }
    }

    fn duty(&self) -> TriggerDuty {
        TriggerDuty::new(Arc::clone(&self.engine), Alerts::default())
    }

    async fn run_a_job(&self, bits: u128) {
        let job = NewJob::new(type_name("work"), Payload::default());
        let request = EnqueueRequest { request: RequestId::from_random(bits), jobs: vec![job] };
        self.engine.enqueue(request).await.unwrap();
        let request = ClaimRequest {
            token: ClaimToken::from_random(bits),
            repeat: false,
            worker: self.worker,
            queues: vec![queue("main")],
            types: vec![type_name("work")],
            limit: 1,
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        };
        let ClaimAnswer::Claimed { mut jobs, .. } = self.engine.claim(request).await.unwrap() else {
            panic!("the worker lives")
        };
        let claimed = jobs.pop().expect("the job that was just enqueued");
        let end = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
        self.engine.settle(vec![end]).await.unwrap();
    }

    async fn hooks(&self) -> u64 {
        let queues = self.engine.queues().await.unwrap();
        queues.iter().find(|status| status.spec.name == queue("hooks")).unwrap().counts.ready
    }
}

#[tokio::test]
async fn a_run_fires_all_that_is_marked_and_says_when_to_look_again() {
    let scenario = Scenario::new().await;
    assert!(!scenario.duty().run().await.unwrap().any);
    let specs: Vec<_> = (0..20).map(|n| spec(&format!("d{n}"), "hook")).collect();
    scenario.triggers.declare(&specs, Origin::Code).await.unwrap();
    let evaluated = scenario.duty().run().await.unwrap();
    assert_eq!((evaluated.jobs, evaluated.next, evaluated.any), (0, None, true));
    scenario.run_a_job(1).await;
    assert_eq!(scenario.duty().run().await.unwrap().jobs, 20);
    scenario.run_a_job(2).await;
    let evaluated = scenario.duty().run().await.unwrap();
    assert_eq!((evaluated.jobs, evaluated.next), (0, Some(TRIGGER_PAUSE)));
    scenario.clock.advance(TRIGGER_PAUSE);
    assert_eq!((scenario.duty().run().await.unwrap().jobs, scenario.hooks().await), (20, 40));
}

#[tokio::test]
async fn two_leaders_that_evaluate_at_once_make_one_job_of_each_trigger() {
    let scenario = Scenario::new().await;
    let specs: Vec<_> = (0..20).map(|n| spec(&format!("d{n}"), "hook")).collect();
    scenario.triggers.declare(&specs, Origin::Code).await.unwrap();
    for round in 1..=20 {
        scenario.run_a_job(round).await;
        let (first, second) = (scenario.duty(), scenario.duty());
        let (one, two) = tokio::join!(first.run(), second.run());
        assert_eq!(one.unwrap().jobs + two.unwrap().jobs, 20);
        scenario.clock.advance(TRIGGER_PAUSE);
    }
    assert_eq!(scenario.hooks().await, 400);
}

#[tokio::test]
async fn a_refused_job_is_kept_as_an_alert_with_the_trigger_and_not_tried_again() {
    let scenario = Scenario::new().await;
    scenario.triggers.declare(&[spec("bad", "unknown"), spec("good", "hook")], Origin::Code).await.unwrap();
    scenario.run_a_job(1).await;
    let (alerts, mut raised) = Alerts::captured();
    let duty = TriggerDuty::new(Arc::clone(&scenario.engine), alerts);
    assert_eq!(duty.run().await.unwrap().jobs, 1);
    drop(duty);
    assert!(matches!(raised.recv().await, Some(Alert::Trigger { trigger, .. }) if trigger == name("bad")));
    assert_eq!(raised.recv().await, None, "once");
    let bad = scenario.triggers.find(&name("bad")).await.unwrap();
    assert_eq!((bad.record.fired, bad.is_marked), (1, false));
    assert!(bad.record.alert.unwrap().why.contains("unknown"));
}

#[tokio::test]
async fn declaring_tells_what_is_new_and_a_wrong_one_keeps_the_others_from_being_stored() {
    let scenario = Scenario::new().await;
    let declare = |specs: Vec<CompletionTrigger>| {
        let triggers = scenario.triggers.clone();
        async move { triggers.declare(&specs, Origin::Configuration).await }
    };
    assert_eq!(declare(vec![spec("a", "hook")]).await.unwrap(), [(name("a"), Declared::New)]);
    let patient = CompletionTrigger { wait_for_retries: true, ..spec("b", "hook") };
    let declared = declare(vec![spec("a", "hook"), patient]).await.unwrap();
    assert_eq!(declared, [(name("a"), Declared::Unchanged), (name("b"), Declared::New)]);
    let declared = declare(vec![spec("b", "hook")]).await.unwrap();
    assert_eq!(declared, [(name("b"), Declared::Updated)]);
    let wrong = declare(vec![spec("c", "hook"), spec("c", "hook")]).await;
    assert!(matches!(wrong, Err(TriggersError::Spec(_))));
    assert!(matches!(scenario.triggers.find(&name("c")).await, Err(TriggersError::Unknown(_))));
    assert_eq!(scenario.triggers.remove(&name("a")).await.unwrap(), Changed::Done);
    assert_eq!(scenario.triggers.remove(&name("a")).await.unwrap(), Changed::NotFound);
    assert_eq!(scenario.triggers.all().await.unwrap().triggers.len(), 1);
}

/// The store's clock stands still, so there is always a mark that must wait, as on a store where other
/// processes end jobs all the time.
#[tokio::test]
async fn who_stops_does_not_look_for_as_long_as_there_are_marks() {
    let scenario = Scenario::new().await;
    scenario.triggers.declare(&[spec("done", "hook")], Origin::Code).await.unwrap();
    let trigger_poller = TriggerPoller::start(&scenario.engine, Alerts::default());
    scenario.run_a_job(1).await;
    scenario.duty().run().await.unwrap();
    scenario.run_a_job(2).await;
    // A poller that went on as long as there are marks would never end.
    let ended = tokio::time::timeout(Duration::from_secs(60), trigger_poller.end()).await;
    assert!(ended.is_ok(), "the poller should end, although a mark is left");
    assert_eq!(scenario.hooks().await, 1, "the last mark must wait");
}

/// The lock stands for another process that takes long to evaluate the trigger.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_another_process_evaluates_is_not_asked_for_all_the_time() {
    use windlass_engines::postgres::tokio_postgres::{NoTls, connect};
    use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let schema = format!("at_it_{:016x}", fastrand::u64(..));
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2027-06-01T09:00:00Z").unwrap()));
    let options = PostgresOptions {
        schema: schema.clone(),
        clock: Some(clock.clone()),
        listen: false,
        ..PostgresOptions::default()
    };
    let engine = PostgresEngine::connect(&url, options).await.unwrap();
    let scenario = Scenario::on(Arc::new(engine), clock).await;
    scenario.triggers.declare(&[spec("done", "hook")], Origin::Code).await.unwrap();
    scenario.run_a_job(1).await;
    let (other, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let at_it = format!("BEGIN; SELECT 1 FROM {schema}.completion_triggers FOR UPDATE");
    other.batch_execute(&at_it).await.unwrap();
    let evaluated = scenario.duty().run().await.unwrap();
    assert!(evaluated.jobs == 0 && evaluated.next >= Some(TRIGGER_PAUSE / 2), "{evaluated:?}");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(scenario.duty().run().await.unwrap().jobs, 1);
}

#[tokio::test]
async fn what_code_no_longer_declares_is_told_and_what_others_declared_is_not() {
    let scenario = Scenario::new().await;
    scenario.triggers.declare(&[spec("a", "hook"), spec("b", "hook")], Origin::Code).await.unwrap();
    scenario.triggers.declare(&[spec("c", "hook")], Origin::Cli).await.unwrap();
    assert_eq!(scenario.triggers.undeclared(&[spec("a", "hook")], Origin::Code).await.unwrap(), [name("b")]);
}
