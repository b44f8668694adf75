//! Everything that is asked of an engine, at least once by each script. Where a call may hold several items, it does, and the
//! last is the one with the most to read.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use windlass_core::admin::ListRequest;
use windlass_core::breaker::BreakerState;
use windlass_core::claim::{ClaimRequest, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::engine::{Admin, Declaration, Engine, RescueRequest, Result};
use windlass_core::enqueue::EnqueueRequest;
use windlass_core::enqueue::RequestId;
use windlass_core::error::EngineError;
use windlass_core::job::{Phase, Progress};
use windlass_core::job_type::TypeSpec;
use windlass_core::lease::{LeaseRelease, LeaseRequest, Leases, Renewal, TermId};
use windlass_core::lease_watch::Suspicion;
use windlass_core::names::{BreakerName, LimitName, OrderingKey, QueueName, ScheduleName, TriggerName};
use windlass_core::policies::{Policies, Take};
use windlass_core::priority::Priority;
use windlass_core::queue::QueueSpec;
use windlass_core::rate_limit::Pace;
use windlass_core::rollups::{
    Minute, Rollup, RollupChange, RollupKey, Rollups, RollupsRequest, Sample, Tally,
};
use windlass_core::schedule::Schedule;
use windlass_core::schedules::acts::declare;
use windlass_core::schedules::{
    JobTemplate, Origin, ScheduleChange, ScheduleSpec, Schedules, WhichSchedules,
};
use windlass_core::settle::Transition;
use windlass_core::triggers::{
    self, CompletionTrigger, CompletionTriggers, TriggerChange, Watched, WhichTriggers,
};
use windlass_core::worker::{Heartbeat, WorkerId};

use super::scene::{
    AWAKE, SILENT, Scene, card, claim_request, duty, gate, kind, new_job, of_fairness_key, oops, ordered,
    queue, settled, with_key,
};

/// Something that is asked of an engine.
pub(super) struct Act {
    pub(super) name: &'static str,
    pub(super) writes: bool,
    pub(super) has_arguments: bool,
    /// Whether it is more than one script: what the first has done stays if a later one fails.
    pub(super) in_steps: bool,
    pub(super) run: fn(&Scene) -> BoxFuture<'_, Result<()>>,
}

const fn act(name: &'static str, writes: bool, run: fn(&Scene) -> BoxFuture<'_, Result<()>>) -> Act {
    Act { name, writes, has_arguments: true, in_steps: false, run }
}

const fn bare(name: &'static str, run: fn(&Scene) -> BoxFuture<'_, Result<()>>) -> Act {
    Act { name, writes: false, has_arguments: false, in_steps: false, run }
}

const fn steps(name: &'static str, run: fn(&Scene) -> BoxFuture<'_, Result<()>>) -> Act {
    Act { name, writes: true, has_arguments: true, in_steps: true, run }
}

macro_rules! act {
    (|$scene:ident| $what:expr) => {
        |$scene| async move { $what.await.map(drop) }.boxed()
    };
}

pub(super) const ACTS: &[Act] = &[
    bare("now", act!(|scene| scene.engine.now())),
    act("catalogue", false, |scene| {
        async { scene.store().reload().await.map_err(EngineError::from) }.boxed()
    }),
    act("workers", false, act!(|scene| scene.engine.workers())),
    act("declare", true, act!(|scene| scene.engine.declare(declaration()))),
    act("enqueue", true, act!(|scene| scene.engine.enqueue(enqueue_request()))),
    act("receipt", false, act!(|scene| scene.engine.receipt(scene.request))),
    act("ask", true, act!(|scene| scene.engine.ask(RequestId::from_random(8)))),
    act("claim", true, act!(|scene| scene.engine.claim(claim_request(AWAKE, 10)))),
    steps("claim a suspect", act!(|scene| claim_suspect(scene))),
    act("repeat a claim", true, act!(|scene| repeat_claim(scene))),
    act("peek", false, |scene| {
        async { scene.engine.peek(&[queue()], &[kind("work")]).await.map(drop) }.boxed()
    }),
    act("settle", true, act!(|scene| scene.engine.settle(settlements(scene)))),
    act("settle plainly", true, act!(|scene| scene.engine.settle(successes(scene)))),
    act("report", true, act!(|scene| scene.engine.report(reports(scene)))),
    act(
        "register",
        true,
        act!(|scene| scene.engine.register(card(WorkerId::from_random(9), vec![kind("nobodys")]))),
    ),
    act(
        "extend",
        true,
        act!(|scene| scene.engine.extend(Heartbeat {
            worker: SILENT,
            lease: Duration::from_secs(30),
            idle: false
        })),
    ),
    act("asked_to_stop", false, act!(|scene| scene.engine.asked_to_stop(AWAKE))),
    act("retire", true, act!(|scene| scene.engine.retire(AWAKE))),
    act("renew", true, |scene| {
        async { scene.store().renew(&scene.store().opened()).await.map_err(EngineError::from) }.boxed()
    }),
    steps("rescue", act!(|scene| scene.engine.rescue(rescue_request()))),
    act("sweep", true, act!(|scene| scene.engine.sweep(100))),
    steps("prune", act!(|scene| prune(scene))),
    act("job", false, act!(|scene| scene.engine.job(scene.waiting))),
    act("head_of", false, |scene| {
        let ordering_key = OrderingKey::parse("a").expect("a plain name");
        async move { scene.engine.head_of(&kind("work"), &ordering_key).await.map(drop) }.boxed()
    }),
    act("attempts", false, act!(|scene| scene.engine.attempts(scene.dead))),
    act("list", false, act!(|scene| scene.engine.list(list_request(None)))),
    act("list_dead", false, act!(|scene| scene.engine.list(list_request(Some(Phase::Dead))))),
    act("queues", false, act!(|scene| scene.engine.queues())),
    act("cancel", true, act!(|scene| scene.engine.cancel(scene.waiting, "enough"))),
    act("cancel a running job", true, act!(|scene| scene.engine.cancel(scene.running[1].job.id, "enough"))),
    act("retry", true, act!(|scene| scene.engine.retry(scene.dead))),
    act("discard", true, act!(|scene| scene.engine.discard(scene.dead))),
    act(
        "set_priority",
        true,
        act!(|scene| scene.engine.set_priority(scene.waiting, Priority::new(1).unwrap())),
    ),
    act("pause", true, |scene| {
        async { scene.engine.pause(&queue(), Some("why"), None).await.map(drop) }.boxed()
    }),
    steps("resume", act!(|scene| resume(scene))),
    act("set_shut", true, |scene| async { scene.engine.set_shut(&queue(), true).await.map(drop) }.boxed()),
    act("purge", true, |scene| async { scene.engine.purge(&queue(), 100).await.map(drop) }.boxed()),
    act("open_gate", true, |scene| async { scene.engine.open_gate(&gate(), 100).await.map(drop) }.boxed()),
    act("breakers", false, act!(|scene| scene.engine.breakers())),
    act("save_breaker", true, act!(|scene| save_breaker(scene))),
    act("still_hold", false, act!(|scene| still_hold(scene))),
    act("take_tokens", true, act!(|scene| take_tokens(scene))),
    act("gates", false, act!(|scene| scene.engine.gates(None, 10))),
    act("behind", false, |scene| async { scene.engine.behind(&gate(), 10).await.map(drop) }.boxed()),
    act("take_leases", true, act!(|scene| take_leases(scene))),
    act("renew_leases", true, act!(|scene| renew_leases(scene))),
    act("release_leases", true, act!(|scene| release_leases(scene))),
    act("leases_hold", false, |scene| {
        async { scene.engine.leases_hold(&leases(scene)).await.map(drop) }.boxed()
    }),
    act("leases", false, act!(|scene| scene.engine.leases())),
    act("step_down", true, |scene| async { scene.engine.step_down(&duty("rescue")).await.map(drop) }.boxed()),
    act("schedules_named", false, |scene| {
        let which = WhichSchedules::Named(vec![schedule("first").name, schedule("second").name]);
        async move { scene.engine.schedules(&which).await.map(drop) }.boxed()
    }),
    act("list_schedules", false, |scene| {
        async { scene.engine.schedules(&WhichSchedules::After(None, 10)).await.map(drop) }.boxed()
    }),
    act("due_schedules", false, |scene| {
        async { scene.engine.schedules(&WhichSchedules::Due(None, 10)).await.map(drop) }.boxed()
    }),
    act("change_schedules", true, |scene| {
        async { scene.engine.change_schedules(&schedule_changes(scene)).await.map(drop) }.boxed()
    }),
    act("read_triggers", false, |scene| {
        let which = WhichTriggers::Named(vec![trigger("first").name, trigger("second").name]);
        async move { scene.engine.triggers(&which).await.map(drop) }.boxed()
    }),
    act("change_triggers", true, |scene| {
        async { scene.engine.change_triggers(&trigger_changes(scene)).await.map(drop) }.boxed()
    }),
    act("fire_trigger", true, |scene| {
        let firing = triggers::acts::fire(&scene.trigger, windlass_core::clock::Clock::now(&*scene.clock));
        async move { scene.engine.fire_triggers(&[firing]).await.map(drop) }.boxed()
    }),
    act("append_samples", true, |scene| async { scene.engine.append_samples(&samples()).await }.boxed()),
    act("rollup_input", false, act!(|scene| scene.engine.rollup_input(10))),
    act("rollups_of", false, |scene| {
        let keys: Vec<_> = rollup_change().rows.into_iter().map(|row| row.key).collect();
        async move { scene.engine.rollups_of(&keys).await.map(drop) }.boxed()
    }),
    act("apply_rollup", true, |scene| {
        async { scene.engine.apply_rollup(&rollup_change()).await.map(drop) }.boxed()
    }),
    act("rollups", false, |scene| {
        let request = RollupsRequest::between(Timestamp::EPOCH, Timestamp::from_micros(i64::MAX / 2));
        async move { scene.engine.rollups(&request).await.map(drop) }.boxed()
    }),
    steps("forget_rollups", act!(|scene| forget_rollups(scene))),
];

fn samples() -> Vec<Sample> {
    let sample = |text: &str| Sample { ago: Duration::from_secs(1), text: text.to_owned() };
    vec![sample("main work 1 a1 a1"), sample("main work 2 a1:2 a1:2")]
}

/// Two rows of a store in which nothing was rolled up yet.
fn rollup_change() -> RollupChange {
    let row = |minute| Rollup {
        key: RollupKey { minute: Minute::from_number(minute), queue: queue(), job_type: kind("work") },
        tally: Tally { enqueued: 1, ..Tally::default() },
    };
    RollupChange {
        read: 0,
        version: 1,
        watermark: String::new(),
        rows: vec![row(1), row(2)],
        rolled_up: vec![1],
    }
}

async fn forget_rollups(scene: &Scene) -> Result<()> {
    if scene.store().damage.begun().is_none() {
        scene.engine.apply_rollup(&rollup_change()).await?;
    }
    scene.engine.forget_rollups(Duration::from_secs(60), 100).await.map(drop)
}

fn trigger(name: &str) -> CompletionTrigger {
    let name = TriggerName::parse(name).unwrap();
    CompletionTrigger::new(name, Watched::Type(kind("other")), JobTemplate::new(kind("work")))
}

/// Two new drains.
fn trigger_changes(scene: &Scene) -> Vec<TriggerChange> {
    let now = windlass_core::clock::Clock::now(&*scene.clock);
    let change = |name: &str| triggers::acts::declare(&trigger(name), Origin::Cli, None, now).unwrap();
    vec![change("first"), change("second")]
}

fn schedule(name: &str) -> ScheduleSpec {
    let (name, every_hour) = (ScheduleName::parse(name).unwrap(), Schedule::parse("every 1h").unwrap());
    ScheduleSpec::new(name, every_hour, JobTemplate::new(kind("work")))
}

/// Two new schedules, each with jobs.
fn schedule_changes(scene: &Scene) -> Vec<ScheduleChange> {
    let now = windlass_core::clock::Clock::now(&*scene.clock);
    let change = |name: &str| {
        let declared = declare(&schedule(name), Origin::Cli, None, now).unwrap();
        let jobs = vec![with_key(name), with_key("waiting"), new_job()];
        ScheduleChange { jobs, ..declared }
    };
    vec![change("first"), change("second")]
}

fn declaration() -> Declaration {
    let name = QueueName::parse("new").unwrap();
    let types = ["first", "second"].map(|of| TypeSpec::new(kind(of), name.clone())).to_vec();
    Declaration { queues: vec![QueueSpec::new(name)], types }
}

fn enqueue_request() -> EnqueueRequest {
    let jobs = vec![
        new_job(),
        ordered("run"),
        ordered("new"),
        with_key("fresh"),
        with_key("fresh"),
        with_key("dead"),
        with_key("waiting"),
        of_fairness_key("a"),
        of_fairness_key("c"),
    ];
    EnqueueRequest { request: RequestId::from_random(fastrand::u128(..)), jobs }
}

async fn claim_suspect(scene: &Scene) -> Result<()> {
    let suspects = Suspects::One { crashes_max: 3 };
    // Nothing is suspect yet; but a rescue makes it so.
    if scene.store().damage.begun().is_none() {
        scene.engine.rescue(rescue_request()).await?;
    }
    scene.engine.claim(ClaimRequest { suspects, ..claim_request(AWAKE, 1) }).await.map(drop)
}

async fn repeat_claim(scene: &Scene) -> Result<()> {
    scene.engine.claim(ClaimRequest { repeat: true, ..scene.claim.clone() }).await.map(drop)
}

fn settlements(scene: &Scene) -> Vec<windlass_core::settle::Settlement> {
    let retry = Transition::Retry { after: Duration::from_secs(1), error: oops() };
    let result = Transition::Succeed { result: Some("1".to_owned()) };
    vec![
        settled(&scene.running[0], retry.clone()),
        settled(&scene.running[1], result.clone()),
        settled(&scene.running[2], retry),
        settled(&scene.running[3], result),
    ]
}

fn successes(scene: &Scene) -> Vec<windlass_core::settle::Settlement> {
    scene.running.iter().map(|claimed| settled(claimed, Transition::Succeed { result: None })).collect()
}

fn reports(scene: &Scene) -> Vec<(windlass_core::claim::Fence, Progress)> {
    scene.running.iter().map(|claimed| (claimed.fence(), Progress { percent: 5, note: None })).collect()
}

fn rescue_request() -> RescueRequest {
    let silent = vec![Suspicion { worker: SILENT, beats: 0 }];
    RescueRequest { silent, crashes_max: 3, limit: 500 }
}

async fn prune(scene: &Scene) -> Result<()> {
    scene.engine.settle(successes(scene)).await.ok();
    scene.clock.advance(Duration::from_secs(8 * 24 * 60 * 60));
    scene.engine.prune(100).await.map(drop)
}

async fn resume(scene: &Scene) -> Result<()> {
    if scene.store().damage.begun().is_none() {
        scene.engine.pause(&queue(), None, None).await?;
    }
    scene.engine.resume(&queue()).await.map(drop)
}

fn list_request(phase: Option<Phase>) -> ListRequest {
    ListRequest { phase, limit: 10, ..ListRequest::default() }
}

async fn save_breaker(scene: &Scene) -> Result<()> {
    let name = BreakerName::parse("shop").unwrap();
    scene.engine.save_breaker(&name, 0, &BreakerState::default()).await.map(drop)
}

async fn still_hold(scene: &Scene) -> Result<()> {
    let fences: Vec<_> = scene.running.iter().map(|claimed| claimed.fence()).collect();
    scene.engine.still_hold(&fences).await.map(drop)
}

async fn take_tokens(scene: &Scene) -> Result<()> {
    let pace = Pace { every: 1_000_000, tolerance: 5_000_000, handful: 1 };
    let take =
        |key: &str| Take { limit: LimitName::parse("calls").unwrap(), key: key.to_owned(), pace, wanted: 2 };
    scene.engine.take_tokens(&[take("one"), take("two"), take("one")]).await.map(drop)
}

async fn take_leases(scene: &Scene) -> Result<()> {
    let duties = ["first", "second"].map(|name| (duty(name), Duration::from_secs(600))).to_vec();
    let id = TermId::from_random(fastrand::u128(..));
    scene.engine.take_leases(&LeaseRequest { worker: AWAKE, id, duties }).await.map(drop)
}

fn leases(scene: &Scene) -> Vec<windlass_core::lease::LeaseFence> {
    let other = windlass_core::lease::LeaseFence { duty: duty("prune"), ..scene.lease.clone() };
    vec![scene.lease.clone(), other]
}

async fn release_leases(scene: &Scene) -> Result<()> {
    let releases: Vec<_> = leases(scene).iter().map(LeaseRelease::from).collect();
    scene.engine.release_leases(&releases).await.map(drop)
}

async fn renew_leases(scene: &Scene) -> Result<()> {
    let renewals: Vec<_> = leases(scene).into_iter().map(|lease| Renewal { lease, metadata: None }).collect();
    scene.engine.renew_leases(&renewals).await.map(drop)
}
