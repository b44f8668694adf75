//! All acts of an engine, which run each script at least once. Where a call may contain several items, it
//! does, and the last item is the one that requires the most reads.

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
use windlass_core::job::{JobState, Progress};
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

use super::scenario::{
    AWAKE, SILENT, Scenario, card, claim_request, duty, gate, kind, new_job, of_fairness_key, oops, ordered,
    queue, settled, with_key,
};

/// A call to an engine.
pub(super) struct Act {
    pub(super) name: &'static str,
    pub(super) writes: bool,
    pub(super) has_arguments: bool,
    /// Whether it runs more than one script: the changes of the first stay if a later one fails.
    pub(super) in_steps: bool,
    pub(super) run: fn(&Scenario) -> BoxFuture<'_, Result<()>>,
}

const fn act(name: &'static str, writes: bool, run: fn(&Scenario) -> BoxFuture<'_, Result<()>>) -> Act {
    Act { name, writes, has_arguments: true, in_steps: false, run }
}

const fn bare(name: &'static str, run: fn(&Scenario) -> BoxFuture<'_, Result<()>>) -> Act {
    Act { name, writes: false, has_arguments: false, in_steps: false, run }
}

const fn steps(name: &'static str, run: fn(&Scenario) -> BoxFuture<'_, Result<()>>) -> Act {
    Act { name, writes: true, has_arguments: true, in_steps: true, run }
}

macro_rules! act {
    (|$scenario:ident| $what:expr) => {
        |$scenario| async move { $what.await.map(drop) }.boxed()
    };
}

pub(super) const ACTS: &[Act] = &[
    bare("now", act!(|scenario| scenario.engine.now())),
    act("catalogue", false, |scenario| {
        async { scenario.store().reload().await.map_err(EngineError::from) }.boxed()
    }),
    act("workers", false, act!(|scenario| scenario.engine.workers())),
    act("declare", true, act!(|scenario| scenario.engine.declare(declaration()))),
    act("enqueue", true, act!(|scenario| scenario.engine.enqueue(enqueue_request()))),
    act("receipt", false, act!(|scenario| scenario.engine.receipt(scenario.request))),
    act("ask", true, act!(|scenario| scenario.engine.ask(RequestId::from_random(8)))),
    act("claim", true, act!(|scenario| scenario.engine.claim(claim_request(AWAKE, 10)))),
    steps("claim a suspect", act!(|scenario| claim_suspect(scenario))),
    act("repeat a claim", true, act!(|scenario| repeat_claim(scenario))),
    act("peek", false, |scenario| {
        async { scenario.engine.peek(&[queue()], &[kind("work")]).await.map(drop) }.boxed()
    }),
    act("settle", true, act!(|scenario| scenario.engine.settle(settlements(scenario)))),
    act("settle plainly", true, act!(|scenario| scenario.engine.settle(successes(scenario)))),
    act("report", true, act!(|scenario| scenario.engine.report(reports(scenario)))),
    act(
        "register",
        true,
        act!(|scenario| scenario.engine.register(card(WorkerId::from_random(9), vec![kind("unhandled")]))),
    ),
    act(
        "extend",
        true,
        act!(|scenario| scenario.engine.extend(Heartbeat {
            worker: SILENT,
            lease: Duration::from_secs(30),
            idle: false
        })),
    ),
    act("asked_to_stop", false, act!(|scenario| scenario.engine.asked_to_stop(AWAKE))),
    act("retire", true, act!(|scenario| scenario.engine.retire(AWAKE))),
    act("renew", true, |scenario| {
        async { scenario.store().renew(&scenario.store().opened()).await.map_err(EngineError::from) }.boxed()
    }),
    steps("rescue", act!(|scenario| scenario.engine.rescue(rescue_request()))),
    act("sweep", true, act!(|scenario| scenario.engine.sweep(100))),
    steps("prune", act!(|scenario| prune(scenario))),
    act("job", false, act!(|scenario| scenario.engine.job(scenario.waiting))),
    act("head_of", false, |scenario| {
        let ordering_key = OrderingKey::parse("a").expect("a plain name");
        async move { scenario.engine.head_of(&kind("work"), &ordering_key).await.map(drop) }.boxed()
    }),
    act("attempts", false, act!(|scenario| scenario.engine.attempts(scenario.dead))),
    act("list", false, act!(|scenario| scenario.engine.list(list_request(None)))),
    act("list_dead", false, act!(|scenario| scenario.engine.list(list_request(Some(JobState::Dead))))),
    act("queues", false, act!(|scenario| scenario.engine.queues())),
    act("cancel", true, act!(|scenario| scenario.engine.cancel(scenario.waiting, "enough"))),
    act(
        "cancel a running job",
        true,
        act!(|scenario| scenario.engine.cancel(scenario.running[1].job.id, "enough")),
    ),
    act("retry", true, act!(|scenario| scenario.engine.retry(scenario.dead))),
    act("discard", true, act!(|scenario| scenario.engine.discard(scenario.dead))),
    act(
        "set_priority",
        true,
        act!(|scenario| scenario.engine.set_priority(scenario.waiting, Priority::new(1).unwrap())),
    ),
    act("pause", true, |scenario| {
        async { scenario.engine.pause(&queue(), Some("why"), None).await.map(drop) }.boxed()
    }),
    steps("resume", act!(|scenario| resume(scenario))),
    act("set_shut", true, |scenario| {
        async { scenario.engine.set_shut(&queue(), true).await.map(drop) }.boxed()
    }),
    act("purge", true, |scenario| async { scenario.engine.purge(&queue(), 100).await.map(drop) }.boxed()),
    act("open_gate", true, |scenario| {
        async { scenario.engine.open_gate(&gate(), 100).await.map(drop) }.boxed()
    }),
    act("breakers", false, act!(|scenario| scenario.engine.breakers())),
    act("save_breaker", true, act!(|scenario| save_breaker(scenario))),
    act("still_hold", false, act!(|scenario| still_hold(scenario))),
    act("take_tokens", true, act!(|scenario| take_tokens(scenario))),
    act("gates", false, act!(|scenario| scenario.engine.gates(None, 10))),
    act("behind", false, |scenario| async { scenario.engine.behind(&gate(), 10).await.map(drop) }.boxed()),
    act("take_leases", true, act!(|scenario| take_leases(scenario))),
    act("renew_leases", true, act!(|scenario| renew_leases(scenario))),
    act("release_leases", true, act!(|scenario| release_leases(scenario))),
    act("leases_hold", false, |scenario| {
        async { scenario.engine.leases_hold(&leases(scenario)).await.map(drop) }.boxed()
    }),
    act("leases", false, act!(|scenario| scenario.engine.leases())),
    act("step_down", true, |scenario| {
        async { scenario.engine.step_down(&duty("rescue")).await.map(drop) }.boxed()
    }),
    act("schedules_named", false, |scenario| {
        let which = WhichSchedules::Named(vec![schedule("first").name, schedule("second").name]);
        async move { scenario.engine.schedules(&which).await.map(drop) }.boxed()
    }),
    act("list_schedules", false, |scenario| {
        async { scenario.engine.schedules(&WhichSchedules::After(None, 10)).await.map(drop) }.boxed()
    }),
    act("due_schedules", false, |scenario| {
        async { scenario.engine.schedules(&WhichSchedules::Due(None, 10)).await.map(drop) }.boxed()
    }),
    act("change_schedules", true, |scenario| {
        async { scenario.engine.change_schedules(&schedule_changes(scenario)).await.map(drop) }.boxed()
    }),
    act("read_triggers", false, |scenario| {
        let which = WhichTriggers::Named(vec![trigger("first").name, trigger("second").name]);
        async move { scenario.engine.triggers(&which).await.map(drop) }.boxed()
    }),
    act("change_triggers", true, |scenario| {
        async { scenario.engine.change_triggers(&trigger_changes(scenario)).await.map(drop) }.boxed()
    }),
    act("fire_trigger", true, |scenario| {
        let firing =
            triggers::acts::fire(&scenario.trigger, windlass_core::clock::Clock::now(&*scenario.clock));
        async move { scenario.engine.fire_triggers(&[firing]).await.map(drop) }.boxed()
    }),
    act("append_samples", true, |scenario| {
        async { scenario.engine.append_samples(&samples()).await }.boxed()
    }),
    act("rollup_input", false, act!(|scenario| scenario.engine.rollup_input(10))),
    act("rollups_of", false, |scenario| {
        let keys: Vec<_> = rollup_change().rows.into_iter().map(|row| row.key).collect();
        async move { scenario.engine.rollups_of(&keys).await.map(drop) }.boxed()
    }),
    act("apply_rollup", true, |scenario| {
        async { scenario.engine.apply_rollup(&rollup_change()).await.map(drop) }.boxed()
    }),
    act("rollups", false, |scenario| {
        let request = RollupsRequest::between(Timestamp::EPOCH, Timestamp::from_micros(i64::MAX / 2));
        async move { scenario.engine.rollups(&request).await.map(drop) }.boxed()
    }),
    steps("forget_rollups", act!(|scenario| forget_rollups(scenario))),
];

fn samples() -> Vec<Sample> {
    let sample = |text: &str| Sample { ago: Duration::from_secs(1), text: text.to_owned() };
    vec![sample("main work 1 a1 a1"), sample("main work 2 a1:2 a1:2")]
}

/// Two rows of a store without rollups.
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

async fn forget_rollups(scenario: &Scenario) -> Result<()> {
    if scenario.store().damage.begun().is_none() {
        scenario.engine.apply_rollup(&rollup_change()).await?;
    }
    scenario.engine.forget_rollups(Duration::from_secs(60), 100).await.map(drop)
}

fn trigger(name: &str) -> CompletionTrigger {
    let name = TriggerName::parse(name).unwrap();
    CompletionTrigger::new(name, Watched::Type(kind("other")), JobTemplate::new(kind("work")))
}

/// Two new completion triggers.
fn trigger_changes(scenario: &Scenario) -> Vec<TriggerChange> {
    let now = windlass_core::clock::Clock::now(&*scenario.clock);
    let change = |name: &str| triggers::acts::declare(&trigger(name), Origin::Cli, None, now).unwrap();
    vec![change("first"), change("second")]
}

fn schedule(name: &str) -> ScheduleSpec {
    let (name, every_hour) = (ScheduleName::parse(name).unwrap(), Schedule::parse("every 1h").unwrap());
    ScheduleSpec::new(name, every_hour, JobTemplate::new(kind("work")))
}

/// Two new schedules, each with jobs.
fn schedule_changes(scenario: &Scenario) -> Vec<ScheduleChange> {
    let now = windlass_core::clock::Clock::now(&*scenario.clock);
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

async fn claim_suspect(scenario: &Scenario) -> Result<()> {
    let suspects = Suspects::One { crashes_max: 3 };
    // No job is suspect yet; but a rescue makes one suspect.
    if scenario.store().damage.begun().is_none() {
        scenario.engine.rescue(rescue_request()).await?;
    }
    scenario.engine.claim(ClaimRequest { suspects, ..claim_request(AWAKE, 1) }).await.map(drop)
}

async fn repeat_claim(scenario: &Scenario) -> Result<()> {
    scenario.engine.claim(ClaimRequest { repeat: true, ..scenario.claim.clone() }).await.map(drop)
}

fn settlements(scenario: &Scenario) -> Vec<windlass_core::settle::Settlement> {
    let retry = Transition::Retry { after: Duration::from_secs(1), error: oops() };
    let result = Transition::Succeed { result: Some("1".to_owned()) };
    vec![
        settled(&scenario.running[0], retry.clone()),
        settled(&scenario.running[1], result.clone()),
        settled(&scenario.running[2], retry),
        settled(&scenario.running[3], result),
    ]
}

fn successes(scenario: &Scenario) -> Vec<windlass_core::settle::Settlement> {
    scenario.running.iter().map(|claimed| settled(claimed, Transition::Succeed { result: None })).collect()
}

fn reports(scenario: &Scenario) -> Vec<(windlass_core::claim::Fence, Progress)> {
    scenario.running.iter().map(|claimed| (claimed.fence(), Progress { percent: 5, note: None })).collect()
}

fn rescue_request() -> RescueRequest {
    let silent = vec![Suspicion { worker: SILENT, beats: 0 }];
    RescueRequest { silent, crashes_max: 3, limit: 500 }
}

async fn prune(scenario: &Scenario) -> Result<()> {
    scenario.engine.settle(successes(scenario)).await.ok();
    scenario.clock.advance(Duration::from_secs(8 * 24 * 60 * 60));
    scenario.engine.prune(100).await.map(drop)
}

async fn resume(scenario: &Scenario) -> Result<()> {
    if scenario.store().damage.begun().is_none() {
        scenario.engine.pause(&queue(), None, None).await?;
    }
    scenario.engine.resume(&queue()).await.map(drop)
}

fn list_request(job_state: Option<JobState>) -> ListRequest {
    ListRequest { job_state, limit: 10, ..ListRequest::default() }
}

async fn save_breaker(scenario: &Scenario) -> Result<()> {
    let name = BreakerName::parse("shop").unwrap();
    scenario.engine.save_breaker(&name, 0, &BreakerState::default()).await.map(drop)
}

async fn still_hold(scenario: &Scenario) -> Result<()> {
    let fences: Vec<_> = scenario.running.iter().map(|claimed| claimed.fence()).collect();
    scenario.engine.still_hold(&fences).await.map(drop)
}

async fn take_tokens(scenario: &Scenario) -> Result<()> {
    let pace = Pace { every: 1_000_000, tolerance: 5_000_000, batch: 1 };
    let take =
        |key: &str| Take { limit: LimitName::parse("calls").unwrap(), key: key.to_owned(), pace, wanted: 2 };
    scenario.engine.take_tokens(&[take("one"), take("two"), take("one")]).await.map(drop)
}

async fn take_leases(scenario: &Scenario) -> Result<()> {
    let duties = ["first", "second"].map(|name| (duty(name), Duration::from_secs(600))).to_vec();
    let id = TermId::from_random(fastrand::u128(..));
    scenario.engine.take_leases(&LeaseRequest { worker: AWAKE, id, duties }).await.map(drop)
}

fn leases(scenario: &Scenario) -> Vec<windlass_core::lease::LeaseFence> {
    let other = windlass_core::lease::LeaseFence { duty: duty("prune"), ..scenario.lease.clone() };
    vec![scenario.lease.clone(), other]
}

async fn release_leases(scenario: &Scenario) -> Result<()> {
    let releases: Vec<_> = leases(scenario).iter().map(LeaseRelease::from).collect();
    scenario.engine.release_leases(&releases).await.map(drop)
}

async fn renew_leases(scenario: &Scenario) -> Result<()> {
    let renewals: Vec<_> =
        leases(scenario).into_iter().map(|lease| Renewal { lease, metadata: None }).collect();
    scenario.engine.renew_leases(&renewals).await.map(drop)
}
