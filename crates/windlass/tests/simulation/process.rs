//! A simulated worker process: the real pools, heart, duties and maintenance, with this module in place of
//! their shells. This file defines the inputs and the outputs; the steps of a process are in the files
//! below it.

mod booting;
mod beating;
mod running;
mod keeping;
mod ending;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass::duties::status::{DutyStatus, DutyStatusEvent};
use windlass::maintenance::Observer;
use windlass::worker::Moment;
use windlass::worker::heart::Heart;
use windlass::worker::pool::{CallFailure, Event, Pool};
use windlass::worker::settle::BatchNumber;
use windlass_core::claim::{ClaimAnswer, ClaimToken, Claimed, Fence};
use windlass_core::duty::runner::RunId;
use windlass_core::engine::Hint;
use windlass_core::error::EngineError;
use windlass_core::lease::lease_client::LeaseCall;
use windlass_core::lease::{LeaseFence, Taking};
use windlass_core::lease_watch::WatchPace;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::outcome::AttemptOutcome;
use windlass_core::settle::{Settled, Settlement};
use windlass_core::worker::WorkerId;

use crate::plan::{self, BEAT_EVERY, LEASE, Pace, ProcessPlan, SWEEP_EVERY};
use crate::store::{Answer, Call, Reply};
use crate::test_rng::TestRng;
use keeping::{Chore, Doing};

/// The pause before a process tries again to register.
const AGAIN: Duration = Duration::from_secs(1);

/// The part of a process that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Declare,
    Register,
    Claim(usize, ClaimToken),
    Settle(usize, BatchNumber),
    Heart,
    StartOver,
    Chore(Chore, RunId),
    Take(LeaseCall),
    Renew(LeaseCall),
    Release,
    Leave,
}

/// An input of a process, from outside or from its own timers.
#[derive(Debug)]
pub(crate) enum Input {
    Answered(Part, Answer),
    Wake(u64),
    Boot,
    StartOver,
    RunEnds { fence: Fence, run: u64, outcome: AttemptOutcome },
    Hinted(Hint),
    Stop { grace: Duration },
}

/// A request of a process to the world.
#[derive(Debug)]
pub(crate) enum Wish {
    Send(Part, Call),
    Later(Duration, Input),
    /// The process dies after this time, if the run that kills it is still running.
    DieAfter(Duration, Fence, u64),
    Started {
        claimed: Box<Claimed>,
        worker: WorkerId,
    },
    /// A settle is sent, for the first time.
    Ended(Settlement),
    HeartbeatFailed(WorkerId),
    /// The process has left: cleanly, or because the time for it was over.
    Leaves {
        worker: WorkerId,
        clean: bool,
    },
    Gone,
    /// The process has broken one of its own rules.
    Broke(&'static str, String),
}

/// A process, running or not.
pub(crate) struct Process {
    pub(crate) at: usize,
    /// The number of starts, so that an input for an earlier start is dropped.
    pub(crate) life: u32,
    pub(crate) plan: ProcessPlan,
    pub(crate) pace: Pace,
    pub(crate) seed: u64,
    pub(crate) body: Option<Body>,
    pub(crate) frozen: bool,
    pub(crate) waiting: Vec<(u32, Input)>,
}

/// The state in memory, which is lost when a process is killed.
pub(crate) struct Body {
    born: Duration,
    rng: TestRng,
    pub(crate) worker: WorkerId,
    stage: Stage,
    pub(crate) pools: Vec<Pool>,
    pub(crate) idle_since: Vec<Option<Duration>>,
    heart: Heart,
    /// `None` until the first heartbeat is answered.
    duty_status: Option<DutyStatus>,
    observer: Observer,
    chores: BTreeMap<Chore, Doing>,
    renewals: BTreeMap<LeaseCall, Vec<LeaseFence>>,
    has_watched: bool,
    failed_heartbeats: u64,
    runs: BTreeMap<Fence, Run>,
    reported: BTreeSet<Fence>,
    next_run: u64,
    stop_by: Option<Moment>,
    wake: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Booting,
    Up,
    StartingOver,
    Leaving,
}

struct Run {
    pool: usize,
    number: u64,
    since: Moment,
    listens: bool,
    cancelled: bool,
}

impl Process {
    pub(crate) fn new(at: usize, plan: ProcessPlan, seed: u64, pace: Pace) -> Self {
        Self { at, life: 0, plan, pace, seed, body: None, frozen: false, waiting: Vec::new() }
    }

    pub(crate) fn boot(&mut self, now: Duration) -> Vec<Wish> {
        self.life += 1;
        let rng = TestRng::of(self.seed, 1000 * (self.at as u64 + 1) + u64::from(self.life));
        self.body = Some(Body::new(now, rng));
        vec![Wish::Send(Part::Declare, Call::Declare(plan::declaration()))]
    }

    /// Kills the process: all state in memory is lost. Returns the identity that died, and whether it was
    /// stopping.
    pub(crate) fn kill(&mut self) -> Option<(WorkerId, bool)> {
        self.frozen = false;
        self.waiting.clear();
        self.body.take().map(|body| (body.worker, body.stage == Stage::Leaving))
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.frozen
            && self.body.as_ref().is_some_and(|body| body.stage == Stage::Up && body.stop_by.is_none())
    }

    pub(crate) fn runs(&self, fence: Fence, run: u64) -> bool {
        self.body.as_ref().is_some_and(|body| body.runs.get(&fence).is_some_and(|r| r.number == run))
    }

    pub(crate) fn take(&mut self, input: Input, now: Duration) -> Vec<Wish> {
        let Some(body) = &mut self.body else { return Vec::new() };
        let mut out = Vec::new();
        let clock = now - body.born;
        body.take(input, clock, &self.plan, &mut out);
        if matches!(body.stage, Stage::Up | Stage::StartingOver) {
            body.pump(clock, now, self.pace, self.seed, &mut out);
        }
        out
    }
}

impl Body {
    fn new(now: Duration, mut rng: TestRng) -> Self {
        let worker = WorkerId::from_random(rng.bits128());
        Self {
            born: now,
            worker,
            stage: Stage::Booting,
            pools: Vec::new(),
            idle_since: Vec::new(),
            heart: Heart::new(LEASE, BEAT_EVERY, Moment::ZERO),
            duty_status: None,
            observer: Observer::new(WatchPace { heartbeat: BEAT_EVERY, sweep: SWEEP_EVERY }, CRASHES_MAX),
            chores: BTreeMap::new(),
            renewals: BTreeMap::new(),
            has_watched: false,
            failed_heartbeats: 0,
            runs: BTreeMap::new(),
            reported: BTreeSet::new(),
            next_run: 0,
            stop_by: None,
            wake: 0,
            rng,
        }
    }

    fn take(&mut self, input: Input, now: Moment, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        match input {
            Input::Answered(part, answer) => self.answered(part, answer, now, plan, out),
            Input::Wake(_) => {}
            Input::Boot => out.push(Wish::Send(Part::Declare, Call::Declare(plan::declaration()))),
            Input::StartOver => self.register(Part::StartOver, plan, out),
            Input::RunEnds { fence, run, outcome } => self.run_ends(fence, run, outcome, now),
            Input::Hinted(hint) => self.hinted(&hint, plan, now, out),
            Input::Stop { grace } => self.stop(grace, now, out),
        }
    }

    fn answered(&mut self, part: Part, answer: Answer, now: Moment, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        match (part, answer) {
            (Part::Declare, Ok(_)) => self.register(Part::Register, plan, out),
            (Part::Declare | Part::Register, Err(_)) => out.push(Wish::Later(AGAIN, Input::Boot)),
            (Part::Register, Ok(_)) => self.come_up(now, plan),
            (Part::Claim(at, token), answer) => {
                let answer = answer.map_err(|error| failure(&error));
                self.notify_pool(at, Event::ClaimAnswered(token, answer.map(claimed)), now);
            }
            (Part::Settle(at, number), answer) => {
                let answer = answer.map_err(|error| failure(&error));
                self.notify_pool(at, Event::SettleAnswered(number, answer.map(settled)), now);
            }
            (Part::Heart, answer) => self.beaten(answer, now, plan, out),
            (Part::StartOver, Err(_)) => out.push(Wish::Later(AGAIN, Input::StartOver)),
            (Part::StartOver, Ok(_)) => self.started_over(now),
            (Part::Chore(chore, run), answer) => self.chore_answered(chore, run, answer, now, out),
            (Part::Take(call), answer) => {
                let answer = answer.map(taken);
                self.notify_duties(DutyStatusEvent::Taken(call, answer), now, out);
            }
            (Part::Renew(call), answer) => self.leases_renewed(call, answer, now, out),
            (Part::Release, _) => {}
            (Part::Leave, _) => out.push(Wish::Gone),
        }
    }

    fn notify_pool(&mut self, at: usize, event: Event, now: Moment) {
        if let Some(pool) = self.pools.get_mut(at) {
            pool.on(event, now);
        }
    }

    fn notify_pools(&mut self, event: impl Fn() -> Event, now: Moment) {
        self.pools.iter_mut().for_each(|pool| pool.on(event(), now));
    }

    fn pump(&mut self, now: Moment, true_now: Duration, pace: Pace, seed: u64, out: &mut Vec<Wish>) {
        if self.stage == Stage::Up {
            self.beat(now, out);
        }
        self.pump_pools(now, true_now, pace, seed, out);
        self.do_duties(now, out);
        self.leave_when_done(now, out);
        self.set_alarm(now, out);
    }

    fn set_alarm(&mut self, now: Moment, out: &mut Vec<Wish>) {
        let mut at = self.stop_by.unwrap_or(Moment::MAX);
        for pool in &self.pools {
            if pool.wake_at() <= now {
                let text =
                    format!("a pool requests a wake-up at {:?}, and the time is {now:?}", pool.wake_at());
                out.push(Wish::Broke("spins", text));
            }
            at = at.min(pool.wake_at());
        }
        if self.stage == Stage::Up {
            at = at.min(self.heart.wake_at());
        }
        if let Some(duty_status) = &self.duty_status {
            at = at.min(duty_status.wake_at().max(now));
        }
        if self.stage != Stage::Leaving && at < Moment::MAX {
            self.wake += 1;
            let after = at.saturating_sub(now).max(Duration::from_micros(50));
            out.push(Wish::Later(after, Input::Wake(self.wake)));
        }
    }

    /// Whether this alarm is the last one that was set.
    pub(crate) fn is_last_alarm(&self, wake: u64) -> bool {
        self.wake == wake
    }
}

fn claimed(reply: Reply) -> ClaimAnswer {
    match reply {
        Reply::Claimed(answer) => answer,
        other => panic!("expected the answer to a claim, got {other:?}"),
    }
}

fn taken(reply: Reply) -> Vec<Taking> {
    match reply {
        Reply::Taken(answers) => answers,
        other => panic!("expected the answer to a request for leases, got {other:?}"),
    }
}

fn settled(reply: Reply) -> Vec<Settled> {
    match reply {
        Reply::Settled(answers) => answers,
        other => panic!("expected the answer to a settle, got {other:?}"),
    }
}

/// Converts an error as the shell around a pool does.
fn failure(error: &EngineError) -> CallFailure {
    match error {
        error if error.is_unknown() => CallFailure::Unknown,
        error if error.is_passing() => CallFailure::NotDone,
        EngineError::Unusable { .. } => CallFailure::NotDone,
        _ => CallFailure::Refused,
    }
}
