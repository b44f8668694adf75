//! Tests of this engine alone: indexes that must follow from the rows, and futures that never wait. The
//! conformance suite checks how an engine behaves.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;

use windlass_core::admin::{BatchDone, Counts, ListRequest};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, Suspects};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine, Hint, HintListener, RescueRequest};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId, When};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::CLAIM_TOMBSTONE_TTL;
use windlass_core::names::{Key, QueueName, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::{Heartbeat, WorkerCard, WorkerId};

use super::MemoryEngine;
use super::state::State;

const LEASE: Duration = Duration::from_secs(30);
const SEMAPHORE: &str = "semaphore:browser";
const TYPES: [&str; 3] = ["mail", "report", "fleeting"];

struct Fixture {
    engine: MemoryEngine,
    clock: Arc<ManualClock>,
    numbers: u128,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let engine = MemoryEngine::with_clock(clock.clone());
        let kept = |days| move |spec: TypeSpec| TypeSpec { retention_days: days, ..spec };
        let types = vec![
            kept(7)(TypeSpec::new(job_type("mail"), queue("default"))),
            kept(1)(TypeSpec::new(job_type("report"), queue("default"))),
            kept(0)(TypeSpec::new(job_type("fleeting"), queue("bulk"))),
        ];
        let queues = ["default", "bulk"].map(|name| QueueSpec::new(queue(name))).to_vec();
        at_once(engine.declare(Declaration { queues, types })).unwrap();
        Self { engine, clock, numbers: 0 }
    }

    fn number(&mut self) -> u128 {
        self.numbers += 1;
        self.numbers
    }

    fn enqueue(&mut self, jobs: Vec<NewJob>) -> Vec<EnqueueAnswer> {
        let request = RequestId::from_random(self.number());
        at_once(self.engine.enqueue(EnqueueRequest { request, jobs })).unwrap()
    }

    fn register(&mut self, types: &[&str]) -> WorkerId {
        let id = WorkerId::from_random(self.number());
        let card = WorkerCard {
            id,
            host: "here".to_owned(),
            pid: 1,
            version: String::new(),
            queues: vec![queue("default"), queue("bulk")],
            types: types.iter().map(|name| job_type(name)).collect(),
            duties: Vec::new(),
            slots: 0,
            lease: LEASE,
        };
        at_once(self.engine.register(card)).unwrap();
        id
    }

    fn claim(&mut self, worker: WorkerId, types: &[&str], limit: u32, suspects: Suspects) -> Vec<Claimed> {
        let request = ClaimRequest {
            token: ClaimToken::from_random(self.number()),
            repeat: false,
            worker,
            queues: vec![queue("default"), queue("bulk")],
            types: types.iter().map(|name| job_type(name)).collect(),
            limit,
            boosted_max: limit / 4,
            suspects,
        };
        match at_once(self.engine.claim(request)).unwrap() {
            ClaimAnswer::Claimed { jobs, .. } => jobs,
            ClaimAnswer::WorkerDead => Vec::new(),
        }
    }

    fn counts(&self, name: &str) -> Counts {
        let statuses = at_once(self.engine.queues()).unwrap();
        statuses.into_iter().find(|status| status.spec.name == queue(name)).unwrap().counts
    }

    /// Recounts everything from the rows and compares it with the engine's counts and indexes.
    fn check(&self) {
        let statuses = at_once(self.engine.queues()).unwrap();
        let now = self.clock.now();
        let state = self.engine.state.lock().unwrap();
        for status in &statuses {
            let here = || state.live.values().filter(|row| row.job.queue == status.spec.name);
            let job_state = |job_state| here().filter(|row| row.job_state(now) == job_state).count() as u64;
            let recounted = Counts {
                ready: job_state(JobState::Ready),
                scheduled: job_state(JobState::Scheduled),
                parked: job_state(JobState::Parked),
                running: job_state(JobState::Running),
                dead_letters: state.dead.values().filter(|row| row.job.queue == status.spec.name).count()
                    as u64,
            };
            assert_eq!(status.counts, recounted, "{}", status.spec.name);
            let totals = status.totals;
            let ended = totals.succeeded + totals.dead + totals.cancelled;
            assert_eq!(totals.enqueued, ended + recounted.unfinished(), "{totals:?}");
            let unfinished = state.index.queue_named(&status.spec.name).unwrap().unfinished;
            assert_eq!(unfinished, recounted.unfinished());
        }
        check_index(&state);
        check_gates_and_expiry(&state);
        check_keys(&state, now);
    }
}

/// Every waiting job is in exactly one index, every running job with its worker, and no other job is in
/// either.
fn check_index(state: &State) {
    let waiting: Vec<JobId> =
        state.index.types().flat_map(|at| state.index.type_row(at).waiting().collect::<Vec<_>>()).collect();
    let is_waiting = |id: &JobId| state.live[id].is_waiting();
    assert!(waiting.iter().all(is_waiting));
    let distinct: BTreeSet<_> = waiting.iter().collect();
    assert_eq!(
        (waiting.len(), distinct.len()),
        (distinct.len(), state.live.values().filter(|row| row.is_waiting()).count())
    );
    for (id, row) in &state.live {
        if let Some(claim) = row.claim() {
            assert!(state.index.held_by(claim.worker).any(|held| held == *id));
        }
    }
    let held: usize = state.workers.keys().map(|worker| state.index.held_count(*worker)).sum();
    assert_eq!(held, state.live.values().filter(|row| row.claim().is_some()).count());
}

/// Every job behind a gate or with an expiry is found there, and no other job.
fn check_gates_and_expiry(state: &State) {
    let waiting = || state.live.values().filter(|row| row.is_waiting());
    let ids = |rows: Vec<JobId>| rows.into_iter().collect::<BTreeSet<_>>();
    let named = TYPES.iter().map(|name| Gate::no_handler(&job_type(name)));
    for gate in named.chain([Gate::named(SEMAPHORE)]) {
        let is_behind = |state: StoredState| state == StoredState::Waiting { gate: Some(gate.clone()) };
        let behind = waiting().filter(|row| is_behind(row.state())).map(|row| row.job.id);
        assert_eq!(ids(state.index.behind(&gate, usize::MAX)), behind.collect(), "{gate}");
    }
    let end_of_time = Timestamp::from_micros(i64::MAX);
    let expiring = waiting().filter(|row| row.job.expiry().is_some()).map(|row| row.job.id);
    assert_eq!(ids(state.index.expired(usize::MAX, end_of_time)), expiring.collect());
}

/// Of all live jobs of one type with one key there is at most one, and the key names it.
fn check_keys(state: &State, now: Timestamp) {
    for row in state.live.values() {
        if let Some(claim) = &row.job.key {
            let holder =
                state.key_holder(&(row.type_at, claim.key.clone())).expect("a live job holds its key");
            assert!(holder.job == row.job.id && holder.holds(now));
        }
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

fn job_type(name: &str) -> TypeName {
    TypeName::parse(name).unwrap()
}

fn new_job(name: &str) -> NewJob {
    NewJob::new(job_type(name), Payload::default())
}

/// Returns the answer of a future that does not wait.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the memory engine never waits"),
    }
}

#[test]
fn what_falls_due_moves_from_scheduled_to_ready_and_back_with_the_clock() {
    let mut fixture = Fixture::new();
    let later = NewJob { when: When::In(Duration::from_secs(60)), ..new_job("mail") };
    fixture.enqueue(vec![new_job("mail"), later]);
    let seen = |fixture: &Fixture| (fixture.counts("default").ready, fixture.counts("default").scheduled);
    let start = fixture.clock.now();
    assert_eq!(seen(&fixture), (1, 1));
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(seen(&fixture), (2, 0));
    fixture.clock.set(start);
    assert_eq!(seen(&fixture), (1, 1));
    fixture.clock.set(start.minus(Duration::from_secs(1)));
    assert_eq!(seen(&fixture), (0, 2));
}

#[test]
fn types_of_one_queue_leave_in_one_order() {
    let mut fixture = Fixture::new();
    let worker = fixture.register(&TYPES);
    let names = ["report", "mail", "mail", "report", "mail"];
    let ids: Vec<_> = fixture.enqueue(names.map(new_job).to_vec()).iter().map(|e| e.job().unwrap()).collect();
    let claimed = fixture.claim(worker, &["mail", "report", "mail"], 10, Suspects::LeaveOut);
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), ids);
}

#[test]
fn a_job_of_a_type_without_retention_leaves_nothing_behind() {
    let mut fixture = Fixture::new();
    let worker = fixture.register(&TYPES);
    fixture.enqueue(vec![new_job("fleeting")]);
    for claimed in fixture.claim(worker, &TYPES, 1, Suspects::LeaveOut) {
        let done = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
        at_once(fixture.engine.settle(vec![done])).unwrap();
    }
    assert_eq!(
        at_once(fixture.engine.list(ListRequest { limit: 10, ..ListRequest::default() })).unwrap(),
        []
    );
    fixture.check();
}

#[test]
fn spent_tokens_are_forgotten_when_no_first_sending_can_come_any_more() {
    let mut fixture = Fixture::new();
    let worker = fixture.register(&TYPES);
    for token in 0..5 {
        at_once(fixture.engine.claim(ClaimRequest {
            token: ClaimToken::from_random(token),
            repeat: true,
            worker,
            queues: vec![queue("default")],
            types: vec![],
            limit: 1,
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        }))
        .unwrap();
    }
    fixture.clock.advance(CLAIM_TOMBSTONE_TTL - Duration::from_secs(1));
    assert_eq!(at_once(fixture.engine.prune(3)).unwrap().changed, 0, "not before its time");
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(at_once(fixture.engine.prune(3)).unwrap(), BatchDone { changed: 3, more: true });
    assert_eq!(at_once(fixture.engine.prune(3)).unwrap(), BatchDone { changed: 2, more: false });
}

/// Calls the engine from within a hint.
struct Caller {
    engine: Weak<MemoryEngine>,
    received: Mutex<Vec<Hint>>,
}

impl HintListener for Caller {
    fn hint(&self, hint: Hint) {
        let engine = self.engine.upgrade().expect("the engine lives as long as it calls");
        at_once(engine.queues()).expect("the engine answers");
        self.received.lock().unwrap().push(hint);
    }
}

#[test]
fn a_listener_may_call_the_engine_and_hears_each_queue_once_a_call() {
    let fixture = Fixture::new();
    let engine = Arc::new(fixture.engine);
    let caller = Arc::new(Caller { engine: Arc::downgrade(&engine), received: Mutex::default() });
    engine.on_hint(Arc::<Caller>::downgrade(&caller));
    let jobs = vec![new_job("mail"), new_job("report"), new_job("fleeting")];
    at_once(engine.enqueue(EnqueueRequest { request: RequestId::from_random(1), jobs })).unwrap();
    let received = caller.received.lock().unwrap();
    assert_eq!(*received, [Hint::Queue(queue("default")), Hint::Queue(queue("bulk"))]);
}

/// One step of a worker, a caller or an operator.
#[derive(Debug, Clone)]
enum Step {
    Enqueue { of: usize, delay: u64, expires: Option<u64>, priority: i64, key: Option<(u8, u8, u8)> },
    Register { types: usize },
    Claim { worker: usize, limit: u32, suspect: bool },
    Settle { claimed: usize, how: u8 },
    SettleAgain { settled: usize },
    Liveness { worker: usize },
    Retire { worker: usize },
    Rescue { limit: u32 },
    Maintenance { limit: u32 },
    Act { job: i64, how: u8 },
    Purge { limit: u32 },
    Pass { secs: u64 },
    GoBack { secs: u64 },
}

fn steps() -> impl Strategy<Value = Step> {
    let key = proptest::option::weighted(0.7, (0..2_u8, 0..3_u8, 0..3_u8));
    prop_oneof![
        6 => (0..3_usize, 0..3_u64, proptest::option::weighted(0.2, 0..100_u64), 0..=10_i64, key)
            .prop_map(|(of, delay, expires, priority, key)| Step::Enqueue { of, delay: delay * 40, expires, priority, key }),
        1 => (0..=3_usize).prop_map(|types| Step::Register { types }),
        5 => (any::<usize>(), 0..5_u32, proptest::bool::weighted(0.3))
            .prop_map(|(worker, limit, suspect)| Step::Claim { worker, limit, suspect }),
        5 => (any::<usize>(), 0..8_u8).prop_map(|(claimed, how)| Step::Settle { claimed, how }),
        1 => any::<usize>().prop_map(|settled| Step::SettleAgain { settled }),
        2 => any::<usize>().prop_map(|worker| Step::Liveness { worker }),
        1 => any::<usize>().prop_map(|worker| Step::Retire { worker }),
        2 => (0..4_u32).prop_map(|limit| Step::Rescue { limit }),
        2 => (0..4_u32).prop_map(|limit| Step::Maintenance { limit }),
        4 => (1..25_i64, 0..5_u8).prop_map(|(job, how)| Step::Act { job, how }),
        1 => (0..4_u32).prop_map(|limit| Step::Purge { limit }),
        3 => prop_oneof![(0..50_u64), Just(90_000_u64)].prop_map(|secs| Step::Pass { secs }),
        1 => (0..50_u64).prop_map(|secs| Step::GoBack { secs }),
    ]
}

/// The fixture and the memory of its callers.
struct Scenario {
    fixture: Fixture,
    workers: Vec<WorkerId>,
    claimed: Vec<Claimed>,
    settled: Vec<windlass_core::settle::Settlement>,
}

impl Scenario {
    fn step(&mut self, step: Step) {
        match step {
            Step::Enqueue { of, delay, expires, priority, key } => {
                let seconds = Duration::from_secs;
                let job = NewJob {
                    when: When::In(seconds(delay)),
                    expires: expires.map(|after| When::In(seconds(after))),
                    priority: Some(Priority::new(priority).unwrap()),
                    key: key.map(key_claim),
                    ..new_job(TYPES[of])
                };
                self.fixture.enqueue(vec![job]);
            }
            Step::Register { types } => self.workers.push(self.fixture.register(&TYPES[..types])),
            Step::Claim { worker, limit, suspect } => {
                let suspects = if suspect { Suspects::One { crashes_max: 2 } } else { Suspects::LeaveOut };
                let worker = pick(&self.workers, worker).copied().unwrap_or(WorkerId::from_random(0));
                self.claimed.extend(self.fixture.claim(worker, &TYPES, limit, suspects));
            }
            Step::Settle { claimed, how } => self.settle(claimed, how),
            Step::SettleAgain { settled } => {
                let again: Vec<_> = pick(&self.settled, settled).cloned().into_iter().collect();
                at_once(self.fixture.engine.settle(again)).unwrap();
            }
            Step::Act { job, how } => self.act(JobId(job), how),
            Step::Pass { secs } => self.fixture.clock.advance(Duration::from_secs(secs)),
            Step::GoBack { secs } => {
                let now = self.fixture.clock.now();
                self.fixture.clock.set(now.minus(Duration::from_secs(secs)));
            }
            maintenance => self.maintain(&maintenance),
        }
    }

    fn settle(&mut self, which: usize, how: u8) {
        if self.claimed.is_empty() {
            return;
        }
        let claimed = self.claimed.swap_remove(which % self.claimed.len());
        let error = JobError::new(ErrorKind::Failed, "oops");
        let after = Duration::from_secs(30);
        let transition = match how {
            0 => Transition::Retry { after, error },
            1 => Transition::Bury { error },
            2 => Transition::Snooze { after },
            3 => Transition::Park { gate: Gate::named(SEMAPHORE) },
            4 => Transition::Cancel { why: "no longer wanted".to_owned() },
            5 => Transition::Release { started: false },
            _ => Transition::Succeed { result: None },
        };
        let settlement = claimed.settled(transition, AttemptReport::default());
        at_once(self.fixture.engine.settle(vec![settlement.clone()])).unwrap();
        self.settled.push(settlement);
    }

    fn act(&self, id: JobId, how: u8) {
        let engine = &self.fixture.engine;
        match how {
            0 => drop(at_once(engine.cancel(id, "not needed")).unwrap()),
            1 => drop(at_once(engine.retry(id)).unwrap()),
            2 => drop(at_once(engine.discard(id)).unwrap()),
            3 => drop(at_once(engine.set_priority(id, Priority::NORMAL)).unwrap()),
            _ => drop(at_once(engine.open_gate(&Gate::named(SEMAPHORE), 1)).unwrap()),
        }
    }

    fn maintain(&mut self, step: &Step) {
        let engine = &self.fixture.engine;
        match *step {
            Step::Liveness { worker } => {
                if let Some(worker) = pick(&self.workers, worker) {
                    at_once(engine.extend(Heartbeat { worker: *worker, lease: LEASE, idle: false })).unwrap();
                }
            }
            Step::Retire { worker } => {
                if let Some(worker) = pick(&self.workers, worker) {
                    at_once(engine.retire(*worker)).unwrap();
                }
            }
            Step::Rescue { limit } => {
                let seen = at_once(engine.workers()).unwrap();
                let silent = seen.iter().map(|s| Suspicion { worker: s.card.id, beats: s.beats }).collect();
                at_once(engine.rescue(RescueRequest { silent, crashes_max: 3, limit })).unwrap();
            }
            Step::Maintenance { limit } => {
                at_once(engine.sweep(limit)).unwrap();
                at_once(engine.prune(limit)).unwrap();
            }
            Step::Purge { limit } => {
                at_once(engine.purge(&queue("bulk"), limit)).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn what_was_parked_during_a_step_of_the_clock_is_let_through_when_the_step_is_taken_back() {
    let mut fixture = Fixture::new();
    let start = fixture.clock.now();
    let everything = fixture.register(&TYPES);
    fixture.clock.advance(LEASE * 2);
    fixture.register(&["mail"]);
    fixture.enqueue(vec![NewJob::new(job_type("report"), Payload::default())]);
    at_once(fixture.engine.sweep(10)).unwrap();
    assert_eq!(fixture.counts("default").parked, 1, "the worker that handles it seems gone");
    fixture.clock.set(start);
    at_once(fixture.engine.extend(Heartbeat { worker: everything, lease: LEASE, idle: false })).unwrap();
    at_once(fixture.engine.sweep(10)).unwrap();
    assert_eq!(fixture.counts("default").parked, 0);
    fixture.check();
}

fn key_claim((key, scope, on_conflict): (u8, u8, u8)) -> KeyClaim {
    KeyClaim {
        key: Key::parse(&format!("key {key}")).unwrap(),
        scope: [KeyScope::WhileLive, KeyScope::WhileLiveOrDead, KeyScope::For(Duration::from_secs(60))]
            [usize::from(scope)],
        on_conflict: [OnConflict::Keep, OnConflict::Replace, OnConflict::Revive][usize::from(on_conflict)],
    }
}

fn pick<T>(items: &[T], which: usize) -> Option<&T> {
    items.get(which.checked_rem(items.len())?)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_counts_and_indexes_follow_from_the_rows(steps in proptest::collection::vec(steps(), 1..120)) {
        let fixture = Fixture::new();
        let mut scenario = Scenario { fixture, workers: Vec::new(), claimed: Vec::new(), settled: Vec::new() };
        for step in steps {
            scenario.step(step);
            scenario.fixture.check();
        }
    }
}
