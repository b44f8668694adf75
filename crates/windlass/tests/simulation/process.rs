//! One simulated worker process: the real pools, heart and upkeep, with this file in place of their shells.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use windlass::upkeep::{Duty, Upkeep};
use windlass::worker::Moment;
use windlass::worker::heart::{Heart, HeartEffect};
use windlass::worker::pool::{Effect, Event, Pool, Trouble};
use windlass::worker::quarantine::Quarantine;
use windlass_core::claim::{ClaimToken, Claimed, Fence};
use windlass_core::engine::Hint;
use windlass_core::error::EngineError;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::outcome::Outcome;
use windlass_core::settle::{AttemptReport, Settlement};
use windlass_core::worker::{Heartbeat, WorkerCard, WorkerId};

use crate::dice::Dice;
use crate::handler::{Ends, Script};
use crate::plan::{self, BEAT_EVERY, LEASE, Pace, ProcessPlan, SWEEP_EVERY};
use crate::store::{Answer, Call, Reply};

/// How long the last settlements may take after the grace of a stop.
const FLUSH_GRACE: Duration = Duration::from_secs(5);
/// After being asked to stop, a handler has this long to end by itself.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// A worker that cannot register, or register again, tries once a second.
const AGAIN: Duration = Duration::from_secs(1);
/// When the store says that the worker is dead, its heart asks soon.
const SOON: Duration = Duration::from_millis(500);

/// Which part of a process waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Declare,
    Register,
    Claim(usize),
    Settle(usize),
    Heart,
    StartOver,
    Upkeep,
    Leave,
}

/// What comes to a process from outside or from its own timers.
#[derive(Debug)]
pub(crate) enum Input {
    Answered(Part, Answer),
    Wake(u64),
    Boot,
    StartOver,
    RunEnds { fence: Fence, run: u64, outcome: Outcome },
    Hinted(Hint),
    Stop { grace: Duration },
}

/// What a process wants of the world.
#[derive(Debug)]
pub(crate) enum Wish {
    Send(Part, Call),
    Later(Duration, Input),
    /// It dies after this time, if the run that kills it still runs.
    DieAfter(Duration, Fence, u64),
    Started {
        claimed: Box<Claimed>,
        worker: WorkerId,
    },
    /// About to settle, for the first time.
    Ended(Settlement),
    BeatFailed(WorkerId),
    /// It has left: cleanly, or because the time for it was over.
    Leaves {
        worker: WorkerId,
        clean: bool,
    },
    Gone,
    /// It broke a rule of its own.
    Broke(&'static str, String),
}

/// A process, running or not.
pub(crate) struct Process {
    pub(crate) at: usize,
    /// Goes up with each start, so that what was meant for an earlier life is dropped.
    pub(crate) life: u32,
    pub(crate) plan: ProcessPlan,
    pub(crate) pace: Pace,
    pub(crate) seed: u64,
    pub(crate) body: Option<Body>,
    pub(crate) frozen: bool,
    pub(crate) waiting: Vec<(u32, Input)>,
}

/// What is gone when a process is killed.
pub(crate) struct Body {
    born: Duration,
    dice: Dice,
    pub(crate) worker: WorkerId,
    stage: Stage,
    pub(crate) pools: Vec<Pool>,
    pub(crate) idle_since: Vec<Option<Duration>>,
    heart: Heart,
    upkeep: Upkeep,
    duties: VecDeque<Duty>,
    duty_under_way: bool,
    runs: BTreeMap<Fence, Run>,
    told: std::collections::BTreeSet<Fence>,
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
        let dice = Dice::of(self.seed, 1000 * (self.at as u64 + 1) + u64::from(self.life));
        self.body = Some(Body::new(now, dice));
        vec![Wish::Send(Part::Declare, Call::Declare(plan::declaration()))]
    }

    /// All in-memory state is gone. Gives the identity that died, and whether it was on its way out.
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
    fn new(now: Duration, mut dice: Dice) -> Self {
        let worker = WorkerId::from_random(dice.bits128());
        Self {
            born: now,
            worker,
            stage: Stage::Booting,
            pools: Vec::new(),
            idle_since: Vec::new(),
            heart: Heart::new(LEASE, BEAT_EVERY, Moment::ZERO),
            upkeep: Upkeep::new(SWEEP_EVERY, CRASHES_MAX, Moment::ZERO),
            duties: VecDeque::new(),
            duty_under_way: false,
            runs: BTreeMap::new(),
            told: std::collections::BTreeSet::new(),
            next_run: 0,
            stop_by: None,
            wake: 0,
            dice,
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
            Input::Stop { grace } => self.stop(grace, now),
        }
    }

    fn answered(&mut self, part: Part, answer: Answer, now: Moment, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        match (part, answer) {
            (Part::Declare, Ok(_)) => self.register(Part::Register, plan, out),
            (Part::Declare | Part::Register, Err(_)) => out.push(Wish::Later(AGAIN, Input::Boot)),
            (Part::Register, Ok(_)) => self.come_up(now, plan),
            (Part::Claim(at), answer) => {
                let answer = answer.map_err(|error| trouble(&error));
                self.tell(at, Event::ClaimAnswered(answer.map(claimed)), now);
            }
            (Part::Settle(at), answer) => {
                let answer = answer.map_err(|error| trouble(&error));
                self.tell(at, Event::SettleAnswered(answer.map(settled)), now);
            }
            (Part::Heart, answer) => self.beaten(answer, now, plan, out),
            (Part::StartOver, Err(_)) => out.push(Wish::Later(AGAIN, Input::StartOver)),
            (Part::StartOver, Ok(_)) => self.started_over(now),
            (Part::Upkeep, answer) => self.kept(answer, now),
            (Part::Leave, _) => out.push(Wish::Gone),
        }
    }

    fn tell(&mut self, at: usize, event: Event, now: Moment) {
        if let Some(pool) = self.pools.get_mut(at) {
            pool.on(event, now);
        }
    }

    fn tell_all(&mut self, event: impl Fn() -> Event, now: Moment) {
        self.pools.iter_mut().for_each(|pool| pool.on(event(), now));
    }

    /// Under a new identity each time: the one before may have been let in without our hearing of it.
    fn register(&mut self, part: Part, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        self.worker = WorkerId::from_random(self.dice.bits128());
        let card = WorkerCard {
            id: self.worker,
            host: "simulated".to_owned(),
            pid: 1,
            version: String::new(),
            queues: plan.queues.clone(),
            types: plan.types.clone(),
            lease: LEASE,
        };
        out.push(Wish::Send(part, Call::Register(card)));
    }

    fn come_up(&mut self, now: Moment, plan: &ProcessPlan) {
        self.stage = Stage::Up;
        self.heart = Heart::new(LEASE, BEAT_EVERY, now);
        self.upkeep = Upkeep::new(SWEEP_EVERY, CRASHES_MAX, now);
        let quarantine = Quarantine::default();
        let worker = self.worker;
        self.pools = plan
            .pools
            .iter()
            .map(|settings| {
                let mut dice = Dice::new(self.dice.bits());
                let tokens = Box::new(move || ClaimToken::from_random(dice.bits128()));
                Pool::new(settings.clone(), worker, quarantine.shared(), tokens)
            })
            .collect();
        self.idle_since = vec![None; self.pools.len()];
    }

    fn started_over(&mut self, now: Moment) {
        self.stage = Stage::Up;
        self.heart = Heart::new(LEASE, BEAT_EVERY, now);
        let worker = self.worker;
        self.tell_all(|| Event::Reborn(worker), now);
    }

    fn beaten(&mut self, answer: Answer, now: Moment, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        if answer.is_err() {
            out.push(Wish::BeatFailed(self.worker));
        }
        let answer = answer.map_err(|_| Trouble::Unknown).map(|reply| match reply {
            Reply::Beat(beat) => beat,
            other => panic!("expected the answer to a heartbeat, got {other:?}"),
        });
        match self.heart.answered(answer, now) {
            Some(HeartEffect::Cancel(fences)) => fences.into_iter().for_each(|fence| self.cancel(fence, out)),
            Some(HeartEffect::Died) if self.stage == Stage::Up => {
                self.stage = Stage::StartingOver;
                self.register(Part::StartOver, plan, out);
            }
            _ => {}
        }
    }

    fn kept(&mut self, answer: Answer, now: Moment) {
        self.duty_under_way = false;
        let next = match answer {
            Ok(Reply::Workers(workers)) => Some(self.upkeep.sighted(&workers, now)),
            Ok(Reply::Rescued(rescued)) => self.upkeep.rescued(&rescued),
            Ok(Reply::Swept(done)) => done.more.then_some(Duty::Sweep),
            _ => None,
        };
        if let Some(duty) = next {
            self.duties.push_front(duty);
        }
    }

    fn run_ends(&mut self, fence: Fence, number: u64, outcome: Outcome, now: Moment) {
        if self.runs.get(&fence).is_none_or(|run| run.number != number) {
            return;
        }
        let Some(run) = self.runs.remove(&fence) else { return };
        let report = AttemptReport { ran_for: now - run.since, output: None };
        self.tell(run.pool, Event::Ended { fence, outcome, report }, now);
    }

    fn hinted(&mut self, hint: &Hint, plan: &ProcessPlan, now: Moment, out: &mut Vec<Wish>) {
        match hint {
            Hint::Queue(queue) => {
                for (at, settings) in plan.pools.iter().enumerate() {
                    if settings.scope.queues.contains(queue) {
                        self.tell(at, Event::Hint, now);
                    }
                }
            }
            Hint::Cancel(fence) => self.cancel(*fence, out),
            Hint::Any => self.tell_all(|| Event::Hint, now),
        }
    }

    /// A handler that listens ends soon; another is stopped after a grace.
    fn cancel(&mut self, fence: Fence, out: &mut Vec<Wish>) {
        let Some(run) = self.runs.get_mut(&fence).filter(|run| !run.cancelled) else { return };
        run.cancelled = true;
        let after = if run.listens { Duration::from_millis(10) } else { CANCEL_GRACE };
        let outcome = Outcome::Cancelled("it was asked to stop".to_owned());
        out.push(Wish::Later(after, Input::RunEnds { fence, run: run.number, outcome }));
    }

    fn stop(&mut self, grace: Duration, now: Moment) {
        if self.stop_by.is_none() && self.stage == Stage::Up {
            self.stop_by = Some(now + grace + FLUSH_GRACE);
            self.tell_all(|| Event::Stop { grace }, now);
        }
    }

    fn pump(&mut self, now: Moment, true_now: Duration, pace: Pace, seed: u64, out: &mut Vec<Wish>) {
        if self.stage == Stage::Up {
            for effect in self.heart.effects(now) {
                match effect {
                    HeartEffect::Beat => {
                        let heartbeat = Heartbeat { worker: self.worker, lease: LEASE };
                        out.push(Wish::Send(Part::Heart, Call::Extend(heartbeat)));
                    }
                    HeartEffect::LeaseRanOut => self.tell_all(|| Event::LeaseRanOut, now),
                    HeartEffect::Cancel(_) | HeartEffect::Died => {}
                }
            }
        }
        for at in 0..self.pools.len() {
            let mut effects = self.pools[at].effects(now);
            // Handlers are stopped in whatever order a map gives; here it must be the same each time.
            effects.sort_by_key(|effect| if let Effect::Abort(fence) = effect { Some(*fence) } else { None });
            effects.into_iter().for_each(|effect| self.perform(at, effect, now, pace, seed, out));
            let idle = self.pools[at].held() == 0;
            self.idle_since[at] = idle.then(|| self.idle_since[at].unwrap_or(true_now));
        }
        self.do_duties(now, out);
        self.leave_when_done(now, out);
        self.set_alarm(now, out);
    }

    fn perform(
        &mut self,
        at: usize,
        effect: Effect,
        now: Moment,
        pace: Pace,
        seed: u64,
        out: &mut Vec<Wish>,
    ) {
        match effect {
            Effect::Claim(request) => out.push(Wish::Send(Part::Claim(at), Call::Claim(request))),
            Effect::Settle(batch) => {
                let first = batch.iter().filter(|settlement| self.told.insert(settlement.fence));
                out.extend(first.cloned().map(Wish::Ended));
                out.push(Wish::Send(Part::Settle(at), Call::Settle(batch)));
            }
            Effect::Start(claimed) => self.start(at, &claimed, now, pace, seed, out),
            Effect::Abort(fence) => {
                if let Some(run) = self.runs.get(&fence) {
                    let outcome = Outcome::Released { started: true };
                    let input = Input::RunEnds { fence, run: run.number, outcome };
                    out.push(Wish::Later(Duration::from_millis(1), input));
                }
            }
            Effect::Died => self.heart.beat_by(now, SOON),
            Effect::ClaimLost(_) => {}
            Effect::GaveUp(settlement) => {
                out.push(Wish::Broke("gave up an end", format!("{:?}", settlement.fence)));
            }
        }
    }

    fn start(
        &mut self,
        pool: usize,
        claimed: &Claimed,
        now: Moment,
        pace: Pace,
        seed: u64,
        out: &mut Vec<Wish>,
    ) {
        self.next_run += 1;
        let (fence, number) = (claimed.fence(), self.next_run);
        let throw = u64::from_be_bytes(fence.token.to_bytes()[8..].try_into().expect("eight bytes"));
        let script = Script::of(seed, fence.job.0, throw, pace);
        let run = Run { pool, number, since: now, listens: script.listens, cancelled: false };
        if self.runs.insert(fence, run).is_some() {
            out.push(Wish::Broke("ran twice at once", format!("{fence:?}")));
        }
        out.push(Wish::Started { claimed: Box::new(claimed.clone()), worker: self.worker });
        out.push(match script.ends {
            Ends::With(outcome) => Wish::Later(script.lasts, Input::RunEnds { fence, run: number, outcome }),
            Ends::KillsItsProcess => Wish::DieAfter(script.lasts, fence, number),
        });
    }

    fn do_duties(&mut self, now: Moment, out: &mut Vec<Wish>) {
        if self.duty_under_way {
            return;
        }
        if self.duties.is_empty() {
            self.duties.extend(self.upkeep.due(now));
        }
        if let Some(duty) = self.duties.pop_front() {
            self.duty_under_way = true;
            let call = match duty {
                Duty::Look => Call::Look,
                Duty::Rescue(request) => Call::Rescue(request),
                Duty::Sweep => Call::Sweep,
                Duty::Prune => Call::Prune,
            };
            out.push(Wish::Send(Part::Upkeep, call));
        }
    }

    fn leave_when_done(&mut self, now: Moment, out: &mut Vec<Wish>) {
        let Some(by) = self.stop_by else { return };
        let clean = self.pools.iter().all(Pool::has_ended);
        if clean || now >= by {
            self.stage = Stage::Leaving;
            self.pools.clear();
            self.runs.clear();
            out.push(Wish::Leaves { worker: self.worker, clean });
            out.push(Wish::Send(Part::Leave, Call::Retire(self.worker)));
        }
    }

    fn set_alarm(&mut self, now: Moment, out: &mut Vec<Wish>) {
        let mut at = self.stop_by.unwrap_or(Moment::MAX);
        for pool in &self.pools {
            if pool.wake_at() <= now {
                let text = format!("it wants to be woken at {:?}, and it is {now:?}", pool.wake_at());
                out.push(Wish::Broke("spins", text));
            }
            at = at.min(pool.wake_at());
        }
        if self.stage == Stage::Up {
            at = at.min(self.heart.wake_at());
        }
        if !self.duty_under_way {
            at = at.min(if self.duties.is_empty() { self.upkeep.wake_at() } else { now });
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

fn claimed(reply: Reply) -> windlass_core::claim::ClaimAnswer {
    match reply {
        Reply::Claimed(answer) => answer,
        other => panic!("expected the answer to a claim, got {other:?}"),
    }
}

fn settled(reply: Reply) -> Vec<windlass_core::settle::Settled> {
    match reply {
        Reply::Settled(answers) => answers,
        other => panic!("expected the answer to a settle, got {other:?}"),
    }
}

/// As the shell around a pool tells it.
fn trouble(error: &EngineError) -> Trouble {
    match error {
        error if error.is_unknown() => Trouble::Unknown,
        error if error.is_passing() => Trouble::NotDone,
        EngineError::Unusable { .. } => Trouble::NotDone,
        _ => Trouble::Refused,
    }
}
