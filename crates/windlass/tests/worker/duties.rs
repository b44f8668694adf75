//! Duties, which one process does for all.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use windlass::duties::{Duty, DutyContext, DutyMode, DutyName, LeaseTiming};
use windlass::limits::{LimitAt, LimitScope};
use windlass::types::admin::Changed;
use windlass::types::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Suspects};
use windlass::types::engine::Engine;
use windlass::types::gate::Gate;
use windlass::types::job::{JobState, StoredState};
use windlass::types::lease::StoredLease;
use windlass::types::rate_limit::RateLimit;
use windlass::types::worker::{WorkerCard, WorkerId};
use windlass::{LimitOptions, RateLimitSpec, StartError, WorkerOptions};

use crate::bench::{Act, Bench, PATIENCE};

const SOON: Duration = Duration::from_millis(100);

/// The timing of leases: they are taken over soon, and a loaded machine can still keep them.
const TIMING: LeaseTiming =
    LeaseTiming { heartbeat: Duration::from_millis(200), expiry: Duration::from_secs(3) };

/// A run: its worker, and its fence.
type Ran = (&'static str, Option<i64>);

/// A duty that reports each run.
fn totals(of: &'static str, sender: &mpsc::UnboundedSender<Ran>) -> Duty {
    let sender = sender.clone();
    let run = move |context: DutyContext| {
        let fence = context.fence().map(|fence| fence.term.fence);
        let _ = sender.send((of, fence));
        context.did(3);
        async {}
    };
    Duty::new("totals", SOON, run).expect("a valid name")
}

fn name() -> DutyName {
    DutyName::parse("totals").expect("a valid name")
}

fn with(duty: Duty) -> WorkerOptions {
    WorkerOptions { duties: vec![duty], duty_leases: TIMING, ..WorkerOptions::default() }
}

async fn next(ran: &mut mpsc::UnboundedReceiver<Ran>) -> Ran {
    tokio::time::timeout(PATIENCE, ran.recv())
        .await
        .expect("the duty is done")
        .expect("a worker does the duty")
}

/// Waits for a run that satisfies the condition.
async fn until(ran: &mut mpsc::UnboundedReceiver<Ran>, is_it: impl Fn(&Ran) -> bool) -> Ran {
    loop {
        let run = next(ran).await;
        if is_it(&run) {
            return run;
        }
    }
}

async fn lease(engine: &Arc<dyn Engine>) -> Option<StoredLease> {
    let read = engine.leases().await.expect("the store is up");
    read.leases.into_iter().find(|lease| lease.duty == name())
}

async fn lease_when(engine: &Arc<dyn Engine>, is_it: impl Fn(&StoredLease) -> bool) -> StoredLease {
    let look = async {
        loop {
            if let Some(lease) = lease(engine).await.filter(|lease| is_it(lease)) {
                return lease;
            }
            // may sleep: no notification reports the metadata of a lease.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the lease satisfies the condition")
}

#[tokio::test]
async fn one_of_two_workers_does_a_duty_and_the_other_takes_over_when_it_stops() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let mut first = Bench::with(with(totals("first", &sender))).await;
    let (of, fence) = next(&mut ran).await;
    assert_eq!(of, "first");
    let mut second = Bench::on(Arc::clone(&first.engine), with(totals("second", &sender))).await;
    for _ in 0..10 {
        assert_eq!(next(&mut ran).await, ("first", fence), "in the same term");
    }
    first.worker.stop().await;
    let (_, next_fence) = until(&mut ran, |(of, _)| *of == "second").await;
    assert!(next_fence > fence, "{next_fence:?} after {fence:?}");
    let taken = lease(&first.engine).await.expect("the lease is known");
    assert_eq!(taken.takeovers, 0, "the lease was released, so no worker had to wait for its expiry");
    second.worker.stop().await;
    assert_eq!(lease(&first.engine).await.expect("the lease is known").holder, None);
}

#[tokio::test]
async fn a_duty_of_every_worker_runs_in_each_and_has_no_fence() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let duty = |of| Duty { mode: DutyMode::EveryWorker, ..totals(of, &sender) };
    let first = Bench::with(with(duty("first"))).await;
    let _second = Bench::on(Arc::clone(&first.engine), with(duty("second"))).await;
    for of in ["first", "second", "first", "second"] {
        assert_eq!(until(&mut ran, |run| run.0 == of).await, (of, None));
    }
    assert_eq!(lease(&first.engine).await, None);
}

#[tokio::test]
async fn leaders_take_turns_if_they_are_to() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let duty = |of| Duty { rotation: Some(SOON * 2), ..totals(of, &sender) };
    // The number of other workers is reported with each heartbeat.
    let often = |duty| WorkerOptions { heartbeat_every: SOON, ..with(duty) };
    let first = Bench::with(often(duty("first"))).await;
    let _second = Bench::on(Arc::clone(&first.engine), often(duty("second"))).await;
    for of in ["second", "first", "second"] {
        until(&mut ran, |run| run.0 == of).await;
    }
}

#[tokio::test]
async fn a_leader_that_is_asked_to_step_down_leaves_the_duty_to_another() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let often = |of| WorkerOptions { heartbeat_every: SOON, ..with(totals(of, &sender)) };
    let first = Bench::with(often("first")).await;
    next(&mut ran).await;
    let _second = Bench::on(Arc::clone(&first.engine), often("second")).await;
    let both = async {
        // may sleep: no notification reports that a worker knows of another.
        while first.engine.workers().await.expect("the store is up").iter().any(|worker| worker.beats < 3) {
            tokio::time::sleep(SOON).await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("both workers are live");
    assert_eq!(first.engine.step_down(&name()).await.expect("the store is up"), Changed::Done);
    until(&mut ran, |(of, _)| *of == "second").await;
}

#[tokio::test]
async fn what_a_duty_did_and_keeps_is_noted_with_its_lease() {
    let run = |context: DutyContext| async move {
        let before = context.kept("runs").and_then(|runs| runs.as_u64()).unwrap_or(0);
        context.did(2);
        context.keep("runs", (before + 1).into());
        if before == 0 { Err("the first run fails") } else { Ok(()) }
    };
    let bench = Bench::with(with(Duty::new("totals", SOON, run).expect("a valid name"))).await;
    let noted = lease_when(&bench.engine, |lease| lease.metadata.notes().runs >= 3).await;
    let notes = noted.metadata.notes();
    assert_eq!((notes.items, notes.errors), (notes.runs * 2, 1));
    assert_eq!(notes.last_error.as_deref(), Some("the first run fails"));
    assert!(notes.last_run.is_some() && notes.longest >= notes.last_took, "{notes:?}");
    assert_eq!(noted.metadata.kept()["runs"].as_u64(), Some(notes.runs));
}

#[tokio::test]
async fn what_a_run_did_that_a_stop_ends_is_noted_with_the_lease_that_is_given_back() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let run = move |context: DutyContext| {
        let sender = sender.clone();
        async move {
            context.did(5);
            let _ = sender.send(("only", None));
            context.stopped().await;
        }
    };
    let mut bench = Bench::with(with(Duty::new("totals", SOON, run).expect("a valid name"))).await;
    next(&mut ran).await;
    bench.worker.stop().await;
    let left = lease(&bench.engine).await.expect("the lease is known");
    let notes = left.metadata.notes();
    assert_eq!(
        (left.holder, notes.items, notes.runs),
        (None, 5, 0),
        "the items of the run count, though it has not ended"
    );
    assert!(notes.running_since.is_some(), "the next leader repeats the run");
}

#[tokio::test]
async fn a_duty_that_panics_is_done_again_at_its_next_time() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let run = move |_: DutyContext| {
        let _ = sender.send(("", None));
        async { assert!(std::hint::black_box(false), "on purpose") }
    };
    let bench = Bench::with(with(Duty::new("totals", SOON, run).expect("a valid name"))).await;
    next(&mut ran).await;
    next(&mut ran).await;
    let noted = lease_when(&bench.engine, |lease| lease.metadata.notes().errors >= 1).await;
    assert_eq!(noted.metadata.notes().last_error.as_deref(), Some("it panicked"));
}

#[tokio::test]
async fn a_handler_that_blocks_the_runtime_costs_no_lease() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let engine = crate::fresh_engine();
    let timing = LeaseTiming { expiry: PATIENCE, ..TIMING };
    let options = WorkerOptions { duty_leases: timing, ..with(totals("first", &sender)) };
    let bench = Bench::on(Arc::clone(&engine), options).await;
    let (_, fence) = next(&mut ran).await;
    let before = lease(&engine).await.expect("the lease is known").heartbeat;
    block_runtime_until(engine, move |engine| {
        Box::pin(async move {
            let held = lease(&engine).await.expect("the lease is known");
            held.heartbeat >= before.plus(timing.heartbeat * 5)
        })
    });
    let after = lease(&bench.engine).await.expect("the lease is known");
    assert_eq!((Some(after.term.fence), after.takeovers), (fence, 0));
}

/// If heartbeats were sent on the runtime of the handlers, none would be stored while it is blocked.
#[tokio::test]
async fn a_handler_that_blocks_the_runtime_holds_up_no_heartbeat() {
    let bench = Bench::with(WorkerOptions { heartbeat_every: SOON, ..WorkerOptions::default() }).await;
    let before = bench.engine.workers().await.expect("the store is up")[0].beats;
    block_runtime_until(Arc::clone(&bench.engine), move |engine| {
        Box::pin(async move { engine.workers().await.expect("the store is up")[0].beats >= before + 5 })
    });
}

type Checking = std::pin::Pin<Box<dyn Future<Output = bool>>>;

/// Blocks the runtime of the test, as a handler could, until the store satisfies a condition. Another thread
/// reads the store.
fn block_runtime_until(
    engine: Arc<dyn Engine>,
    is_it: impl Fn(Arc<dyn Engine>) -> Checking + Send + 'static,
) {
    let looking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let look = async {
            while !is_it(Arc::clone(&engine)).await {
                // may sleep: no notification reports a heartbeat.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        runtime.block_on(async { tokio::time::timeout(PATIENCE, look).await.is_ok() })
    });
    let happened = looking.join().expect("the store is up");
    assert!(happened, "expected heartbeats while the runtime is blocked");
}

#[tokio::test]
async fn a_mode_that_the_engine_has_not_is_refused_and_nothing_is_stored() {
    let (sender, _ran) = mpsc::unbounded_channel();
    let engine = crate::fresh_engine();
    let has = engine.info().duty_modes;
    let modes = [(DutyMode::AdvisoryLock, has.advisory_lock), (DutyMode::WorkStealing, has.work_stealing)];
    for (mode, has_it) in modes {
        let handlers = windlass::Handlers::new(()).handle(quiet);
        let options = with(Duty { mode, ..totals("first", &sender) });
        let started = windlass::Worker::start(Arc::clone(&engine), handlers, options).await;
        match started {
            Ok(mut worker) => {
                assert!(has_it, "{mode}");
                worker.stop().await;
            }
            Err(StartError::Store(error)) => {
                assert!(!has_it && error.to_string().contains("use `lease`"), "{mode}: {error}");
                assert_eq!(engine.queues().await.expect("the store is up"), [], "expected no declaration");
            }
            Err(other) => panic!("{mode}: {other}"),
        }
    }
}

async fn quiet(_: Act) {}

#[tokio::test]
async fn duties_that_cannot_work_are_refused_with_the_reason() {
    let (sender, _ran) = mpsc::unbounded_channel();
    let duty = || totals("first", &sender);
    let named = |name| Duty { name: DutyName::parse(name).expect("a valid name"), ..duty() };
    let late = LeaseTiming { heartbeat: Duration::from_secs(5), ..LeaseTiming::default() };
    let wrong = [
        (WorkerOptions { duties: vec![duty(), duty()], ..WorkerOptions::default() }, "totals twice"),
        (with(named("rescue")), "a name of its own"),
        (with(Duty { interval: Duration::ZERO, ..duty() }), "expected an interval"),
        (with(Duty { rotation: Some(SOON / 2), ..duty() }), "expected a rotation"),
        (WorkerOptions { duty_leases: late, ..WorkerOptions::default() }, "two fit into"),
    ];
    for (options, reason) in wrong {
        let handlers = windlass::Handlers::new(()).handle(quiet);
        let started = windlass::Worker::start(crate::fresh_engine(), handlers, options).await;
        let Err(StartError::Store(error)) = started else { panic!("expected a refusal: {reason}") };
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_worker_without_maintenance_does_no_duties() {
    let (sender, mut ran) = mpsc::unbounded_channel();
    let idle = WorkerOptions { maintenance: false, ..with(totals("idle", &sender)) };
    let mut bench = Bench::with(idle).await;
    let id = bench.put(Act::Succeed).await;
    bench.started().await;
    bench.until(id, JobState::Succeeded).await;
    let _other = Bench::on(Arc::clone(&bench.engine), with(totals("other", &sender))).await;
    for _ in 0..5 {
        assert_eq!(next(&mut ran).await.0, "other");
    }
    let workers = bench.engine.workers().await.expect("the store is up");
    assert_eq!(workers.iter().filter(|worker| worker.card.duties.contains(&name())).count(), 1);
}

/// A worker that claims a job and sends no heartbeat afterwards.
async fn die_with(engine: &Arc<dyn Engine>, lease: Duration) -> WorkerId {
    loop {
        // On a busy machine, another worker may notice its silence before it has claimed the job.
        if let Some(dead) = claim_and_die(engine, lease).await {
            return dead;
        }
    }
}

async fn claim_and_die(engine: &Arc<dyn Engine>, lease: Duration) -> Option<WorkerId> {
    let id = WorkerId::from_random(u128::from(fastrand::u64(..)));
    let card = WorkerCard {
        id,
        host: "elsewhere".to_owned(),
        pid: 1,
        version: String::new(),
        queues: vec!["default".parse().expect("a valid name")],
        types: vec!["act".parse().expect("a valid name")],
        duties: Vec::new(),
        slots: 1,
        lease,
    };
    let request = ClaimRequest {
        token: ClaimToken::from_random(u128::from(fastrand::u64(..))),
        repeat: false,
        worker: id,
        queues: card.queues.clone(),
        types: card.types.clone(),
        limit: 1,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    };
    engine.register(card).await.expect("its identity is new");
    match engine.claim(request).await.expect("the store is up") {
        ClaimAnswer::Claimed { jobs, .. } => {
            assert_eq!(jobs.len(), 1);
            Some(id)
        }
        ClaimAnswer::WorkerDead => None,
    }
}

#[tokio::test]
async fn two_that_both_lead_take_back_a_dead_workers_job_once_and_cancel_what_expired() {
    let engine = crate::fresh_engine();
    let client = windlass::Client::new(Arc::clone(&engine));
    client.register::<Act>().await.expect("the store is up");
    let (job, late) = (client.enqueue(Act::Succeed), client.enqueue(Act::Succeed));
    let id = job.await.expect("the job is accepted").id;
    die_with(&engine, SOON).await;
    let never = late.delay(PATIENCE * 10).expires_in(Duration::from_millis(1));
    let expired = never.await.expect("the job is accepted").id;
    let mut first = Bench::on(Arc::clone(&engine), both_lead()).await;
    let second = Bench::on(Arc::clone(&engine), both_lead()).await;
    let record = first.until(id, JobState::Succeeded).await;
    assert_eq!((record.job.counters.crashes, record.job.counters.attempts), (1, 2));
    second.until(expired, JobState::Cancelled).await;
    assert_eq!(lease(&engine).await, None, "expected no lease");
    first.worker.stop().await;
}

/// The options of a worker that does maintenance on its own, as two leaders at once would.
fn both_lead() -> WorkerOptions {
    WorkerOptions {
        maintenance_mode: DutyMode::EveryWorker,
        heartbeat_every: SOON / 2,
        sweep_every: Duration::from_millis(20),
        ..WorkerOptions::default()
    }
}

/// The heartbeats of the observer prove that heartbeats of the dead worker could have been stored.
#[tokio::test]
async fn a_process_without_slots_that_only_does_maintenance_takes_back_the_job_of_a_dead_worker() {
    let engine = crate::fresh_engine();
    let client = windlass::Client::new(Arc::clone(&engine));
    client.register::<Act>().await.expect("the store is up");
    let id = client.enqueue(Act::Succeed).await.expect("the job is accepted").id;
    die_with(&engine, SOON).await;
    let mut observer = only_maintains(&engine).await;
    rescued(&client, id).await;
    assert_eq!(client.job(id).await.unwrap().unwrap().job.counters.crashes, 1);
    let slots: Vec<_> = engine.workers().await.unwrap().iter().map(|worker| worker.card.slots).collect();
    assert_eq!(slots, [0], "the observer is the only worker, and has no slots");
    let stopper = observer.stopper();
    let mut end = std::pin::pin!(observer.ended(None));
    let waits = tokio::time::timeout(Duration::from_millis(1), &mut end).await;
    assert_eq!(waits.ok(), None, "the observer continues until it is stopped");
    stopper.stop();
    assert_eq!(end.await, windlass::Stopped::Clean);
}

/// The observer's heartbeats are those of another worker from then on.
#[tokio::test]
async fn a_process_that_had_to_start_over_still_takes_back_the_job_of_a_dead_worker() {
    let engine = crate::fresh_engine();
    let client = windlass::Client::new(Arc::clone(&engine));
    client.register::<Act>().await.expect("the store is up");
    let mut observer = only_maintains(&engine).await;
    let before = engine.workers().await.expect("the store is up")[0].card.id;
    engine.retire(before).await.expect("the store is up");
    let started_over = async {
        while engine.workers().await.expect("the store is up").first().is_none_or(|worker| worker.beats == 0)
        {
            // may sleep: it polls until the worker is registered again, and the test fails after a limit.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, started_over).await.expect("the worker registers again");
    assert_ne!(engine.workers().await.expect("the store is up")[0].card.id, before);
    let id = client.enqueue(Act::Succeed).await.expect("the job is accepted").id;
    die_with(&engine, SOON).await;
    rescued(&client, id).await;
    observer.stop().await;
}

async fn only_maintains(engine: &Arc<dyn Engine>) -> windlass::Worker {
    let options = WorkerOptions {
        serve: Some(Vec::new()),
        heartbeat_every: SOON / 2,
        sweep_every: Duration::from_millis(20),
        ..WorkerOptions::default()
    };
    let handlers = windlass::Handlers::new(());
    windlass::Worker::start(Arc::clone(engine), handlers, options).await.expect("the worker starts")
}

async fn rescued(client: &windlass::Client, id: windlass::JobId) {
    let looking = async {
        while client.job(id).await.expect("the store is up").expect("the job is known").job_state()
            == JobState::Running
        {
            // may sleep: it polls until the job is rescued, and the test fails after a limit.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("the job is rescued");
}

/// A job that only one worker of these tests handles.
#[derive(serde::Serialize, serde::Deserialize)]
struct Orphan;

impl windlass::JobType for Orphan {
    const NAME: &'static str = "orphan";
}

async fn adopt(_: Orphan) {}

#[tokio::test]
async fn two_leaders_park_a_job_without_a_handler_once_and_it_runs_once_when_it_has_one() {
    let engine = crate::fresh_engine();
    let first = Bench::on(Arc::clone(&engine), both_lead()).await;
    let second = Bench::on(Arc::clone(&engine), both_lead()).await;
    first.client.register::<Orphan>().await.expect("the store is up");
    let id = first.client.enqueue(Orphan).await.expect("the job is accepted").id;
    let parked = first.until(id, JobState::Parked).await;
    let gate = Gate::no_handler(&"orphan".parse().expect("a valid name"));
    assert_eq!(parked.state, StoredState::Waiting { gate: Some(gate) });
    let still = second.until(id, JobState::Parked).await;
    assert_eq!((still.state, still.job.counters), (parked.state, parked.job.counters));
    let handlers = windlass::Handlers::new(()).handle(adopt);
    let mut third = windlass::Worker::start(engine, handlers, both_lead()).await.expect("the worker starts");
    let ended = first.until(id, JobState::Succeeded).await;
    assert_eq!((ended.job.counters.attempts, ended.job.counters.crashes), (1, 0));
    third.stop().await;
}

#[tokio::test]
async fn two_that_both_look_for_gates_let_each_job_through_once_and_no_more_than_the_limit_allows() {
    const JOBS: usize = 12;
    let limit = RateLimit::new(4, Duration::from_secs(1));
    let (name, types) = ("acts".parse().expect("a plain name"), vec!["act".parse().expect("a plain name")]);
    let spec = RateLimitSpec { name, limit, scope: LimitScope::Store, at: LimitAt::Run, types };
    let limits = LimitOptions { rate_limits: vec![spec], ..LimitOptions::default() };
    let options = || WorkerOptions { limits: limits.clone(), ..both_lead() };
    let mut first = Bench::with(options()).await;
    let mut second = Bench::on(Arc::clone(&first.engine), options()).await;
    let began = std::time::Instant::now();
    let mut ids = Vec::new();
    for _ in 0..JOBS {
        ids.push(first.put(Act::Succeed).await);
    }
    for id in ids {
        let ended = first.until(id, JobState::Succeeded).await;
        assert_eq!(ended.job.counters.attempts, 1);
    }
    // Four jobs run at once, and eight more at four a second, minus the part of a second before the last
    // one.
    assert!(
        began.elapsed() >= Duration::from_millis(1_700),
        "expected the limit to hold, all jobs ended after {:?}",
        began.elapsed()
    );
    let started = std::iter::from_fn(|| first.reports.try_recv().or_else(|_| second.reports.try_recv()).ok());
    assert_eq!(started.count(), JOBS, "each job was started once");
}

#[tokio::test]
async fn one_process_does_all_duties_of_windlass_itself_and_takes_back_the_job_of_one_that_fell_silent() {
    let engine = crate::fresh_engine();
    let client = windlass::Client::new(Arc::clone(&engine));
    client.register::<Act>().await.expect("the store is up");
    let id = client.enqueue(Act::Succeed).await.expect("the job is accepted").id;
    die_with(&engine, SOON).await;
    let options = || WorkerOptions {
        heartbeat_every: SOON / 2,
        sweep_every: Duration::from_millis(20),
        ..WorkerOptions::default()
    };
    let first = Bench::on(Arc::clone(&engine), options()).await;
    let _second = Bench::on(Arc::clone(&engine), options()).await;
    let record = first.until(id, JobState::Succeeded).await;
    assert_eq!((record.job.counters.crashes, record.job.counters.attempts), (1, 2));
    let read = engine.leases().await.expect("the store is up");
    let leaders: std::collections::BTreeSet<_> = read.leases.iter().map(|lease| lease.holder).collect();
    let names: Vec<_> = read.leases.iter().map(|lease| lease.duty.as_str()).collect();
    assert_eq!(
        (leaders.len(), names),
        (1, vec!["gates", "prune", "rescue", "rollups", "schedules", "sweep", "triggers"])
    );
}
