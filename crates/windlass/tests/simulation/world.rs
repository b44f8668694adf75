//! The world: one queue of events, ordered by time and then by when they were planned. Only these events
//! move the clock, and all random numbers come from the seed.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_conformance::history::FaultKind;
use windlass_core::claim::Fence;
use windlass_core::engine::Hint;
use windlass_core::job::JobId;

use crate::observer::{Moment, Observer};
use crate::plan::{BEAT_EVERY, Plan};
use crate::process::{Input, Part, Process, Wish};
use crate::producer::{Next, Producer};
use crate::store::{Answer, CALL_DEADLINE, Call, Fate, Store, unavailable, unknown};
use crate::test_rng::TestRng;
use crate::trace::Trace;

/// The sender of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Process { at: usize, life: u32, part: Part },
    Producer(usize),
    Operator,
}

/// An event of the world.
#[derive(Debug)]
pub(crate) enum Happening {
    Arrives { call: u64 },
    Answered { call: u64, answer: Answer },
    ToProcess { at: usize, life: u32, input: Input },
    Dies { at: usize, life: u32, fence: Fence, run: u64 },
    Starts { at: usize },
    Thaws { at: usize, life: u32 },
    Produces { at: usize },
    SendsAgain { at: usize },
    Operates,
    Strikes,
    Heals,
    Looks,
}

/// A call on its way.
struct OnItsWay {
    caller: Caller,
    call: Call,
    back: Option<Duration>,
    answered: bool,
    arrived: bool,
}

/// A sent call, for the trace.
#[derive(Debug)]
#[allow(dead_code, reason = "read through its Debug")]
struct Sends<'a> {
    number: u64,
    caller: Caller,
    fate: Fate,
    call: &'a Call,
}

/// How the store is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Away {
    /// The store refuses connections.
    Refusing,
    /// The store accepts connections, and does nothing until it is back.
    Frozen,
    /// The store can be read, and refuses every write, as with a full disk.
    ReadOnly,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Duration,
    planned: u64,
    line: BTreeMap<(Duration, u64), Happening>,
    calls: BTreeMap<u64, OnItsWay>,
    pub(crate) rng: TestRng,
    pub(crate) store: Store,
    pub(crate) observer: Observer,
    pub(crate) processes: Vec<Process>,
    pub(crate) producers: Vec<Producer>,
    pub(crate) away: Option<(Away, Duration)>,
    /// How long in total the store has refused writes.
    pub(crate) unwritable: Duration,
    pub(crate) healed: Option<Duration>,
    /// Since when each ready job has been ready, after the faults.
    pub(crate) ready_since: BTreeMap<JobId, Duration>,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let seed = plan.seed;
        let make = |(at, process): (usize, &crate::plan::ProcessPlan)| {
            Process::new(at, process.clone(), seed, plan.pace)
        };
        let processes = plan.processes.iter().enumerate().map(make).collect::<Vec<_>>();
        let count = usize::try_from(plan.producers).expect("there are few producers");
        let producers = (0..count).map(|at| Producer::new(at, seed)).collect();
        let mut world = Self {
            now: Duration::ZERO,
            planned: 0,
            line: BTreeMap::new(),
            calls: BTreeMap::new(),
            rng: TestRng::of(seed, 2),
            store: Store::new(),
            observer: Observer::default(),
            processes,
            producers,
            away: None,
            unwritable: Duration::ZERO,
            healed: None,
            ready_since: BTreeMap::new(),
            trace: Trace::default(),
            steps: 0,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.store.apply(Call::Declare(crate::plan::declaration())).expect("a valid declaration");
        for at in 0..self.processes.len() {
            let after = self.rng.millis(0, 3000);
            self.later(after, Happening::Starts { at });
        }
        for at in 0..self.producers.len() {
            let after = self.producers[at].pause();
            self.later(after, Happening::Produces { at });
        }
        self.later(Duration::from_secs(2), Happening::Operates);
        self.later(Duration::from_secs(3), Happening::Strikes);
        self.later(self.plan.trouble, Happening::Heals);
    }

    pub(crate) fn later(&mut self, after: Duration, happening: Happening) {
        self.planned += 1;
        self.line.insert((self.now + after, self.planned), happening);
    }

    /// Executes the next event. Returns false if there is none, which means that every process is dead.
    pub(crate) fn step(&mut self) -> bool {
        let Some(((at, _), happening)) = self.line.pop_first() else { return false };
        if let Some((_, until)) = self.away {
            self.unwritable += at.min(until).saturating_sub(self.now);
        }
        self.now = at;
        self.steps += 1;
        self.store.at(at);
        if !self.is_obsolete(&happening) {
            self.trace.note(at, &happening);
            self.happen(happening);
        }
        true
    }

    /// Whether this is the deadline of a call that was answered, or an alarm that was set anew.
    fn is_obsolete(&self, happening: &Happening) -> bool {
        match happening {
            Happening::Answered { call, .. } => {
                self.calls.get(call).is_none_or(|on_its_way| on_its_way.answered)
            }
            Happening::ToProcess { at, life, input: Input::Wake(wake) } => {
                let process = &self.processes[*at];
                process.life != *life || process.body.as_ref().is_none_or(|body| !body.is_last_alarm(*wake))
            }
            _ => false,
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives { call } => self.arrives(call),
            Happening::Answered { call, answer } => self.answered(call, answer),
            Happening::ToProcess { at, life, input } => self.hand_over(at, life, input),
            Happening::Dies { at, life, fence, run } => self.dies(at, life, fence, run),
            Happening::Starts { at } => self.starts(at),
            Happening::Thaws { at, life } => self.thaws(at, life),
            Happening::Produces { at } => self.produces(at),
            Happening::SendsAgain { at } => {
                if let Some(call) = self.producers[at].again() {
                    self.send(Caller::Producer(at), call);
                }
            }
            Happening::Operates => self.operates(),
            Happening::Strikes => self.strikes(),
            Happening::Heals => self.heals(),
            Happening::Looks => self.looks(),
        }
    }

    /// Sends a call through the network, which may fail.
    pub(crate) fn send(&mut self, caller: Caller, call: Call) {
        let fate = match self.healed {
            Some(_) => Fate::Answered(self.rng.micros(100, 3000), self.rng.micros(100, 3000)),
            None => self.plan.weather.fate(&mut self.rng),
        };
        self.planned += 1;
        let number = self.planned;
        self.trace.note(self.now, &Sends { number, caller, call: &call, fate });
        let (arrives, back, unanswered) = match fate {
            Fate::Answered(way, back) => (Some(way), Some(back), None),
            Fate::Refused(after) => (None, None, Some((after, unavailable()))),
            Fate::Lost(way, after) => (Some(way), None, Some((after, unknown()))),
        };
        self.calls
            .insert(number, OnItsWay { caller, call, back, answered: false, arrived: arrives.is_none() });
        if let Some(after) = arrives {
            self.later(after, Happening::Arrives { call: number });
        }
        let (after, error) = unanswered.unwrap_or((CALL_DEADLINE, unknown()));
        self.later(after, Happening::Answered { call: number, answer: Err(error) });
    }

    fn arrives(&mut self, number: u64) {
        match self.away {
            Some((Away::Frozen, until)) => {
                return self.later(until - self.now, Happening::Arrives { call: number });
            }
            Some((how, _)) if how == Away::Refusing || !self.calls[&number].call.only_reads() => {
                let back = self.calls.get_mut(&number).and_then(|call| call.back.take());
                self.calls.get_mut(&number).expect("the call is on its way").arrived = true;
                if let Some(back) = back {
                    self.later(back, Happening::Answered { call: number, answer: Err(unavailable()) });
                }
                return self.forget_if_done(number);
            }
            _ => {}
        }
        let Some(on_its_way) = self.calls.get_mut(&number) else { return };
        on_its_way.arrived = true;
        let (caller, call, back) = (on_its_way.caller, on_its_way.call.clone(), on_its_way.back);
        let answer = self.store.apply(call.clone());
        let process = if let Caller::Process { at, .. } = caller { Some(at) } else { None };
        self.observer.saw(
            &call,
            &answer,
            &Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process },
        );
        self.spread_hints();
        if let Some(back) = back {
            self.later(back, Happening::Answered { call: number, answer });
        }
        self.forget_if_done(number);
    }

    /// Passes the first result of a call to its caller: an answer, a broken connection, or the deadline.
    fn answered(&mut self, number: u64, answer: Answer) {
        let Some(on_its_way) = self.calls.get_mut(&number) else { return };
        on_its_way.answered = true;
        let caller = on_its_way.caller;
        self.forget_if_done(number);
        match caller {
            Caller::Process { at, life, part } => self.hand_over(at, life, Input::Answered(part, answer)),
            Caller::Producer(at) => {
                let moment =
                    Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process: None };
                match self.producers[at].answered(answer, &mut self.observer, &moment) {
                    Next::SendAfter(after) => self.later(after, Happening::SendsAgain { at }),
                    Next::Rest => {
                        let pause = self.producers[at].pause();
                        self.later(pause, Happening::Produces { at });
                    }
                }
            }
            Caller::Operator => {}
        }
    }

    fn forget_if_done(&mut self, number: u64) {
        if self.calls.get(&number).is_some_and(|call| call.answered && call.arrived) {
            self.calls.remove(&number);
        }
    }

    /// Passes notifications on to most processes, with a delay.
    fn spread_hints(&mut self) {
        for hint in self.store.take_hints() {
            for at in 0..self.processes.len() {
                if self.rng.per_mille(800) {
                    let after = self.rng.micros(200, 20_000);
                    let life = self.processes[at].life;
                    let input = Input::Hinted(Hint::clone(&hint));
                    self.later(after, Happening::ToProcess { at, life, input });
                }
            }
        }
    }

    fn hand_over(&mut self, at: usize, life: u32, input: Input) {
        let process = &mut self.processes[at];
        if process.life != life {
            return;
        }
        if process.frozen {
            process.waiting.push((life, input));
            return;
        }
        let wishes = process.take(input, self.now);
        self.grant(at, wishes);
    }

    fn starts(&mut self, at: usize) {
        if self.processes[at].body.is_none() {
            let wishes = self.processes[at].boot(self.now);
            self.grant(at, wishes);
        }
    }

    fn thaws(&mut self, at: usize, life: u32) {
        let process = &mut self.processes[at];
        if process.life != life || !process.frozen {
            return;
        }
        process.frozen = false;
        for (life, input) in std::mem::take(&mut process.waiting) {
            self.later(Duration::from_micros(10), Happening::ToProcess { at, life, input });
        }
    }

    /// A handler kills its process, unless it was stopped before, or the process is frozen.
    fn dies(&mut self, at: usize, life: u32, fence: Fence, run: u64) {
        let process = &self.processes[at];
        if process.life != life || !process.runs(fence, run) {
            return;
        }
        if process.frozen {
            return self.later(Duration::from_millis(500), Happening::Dies { at, life, fence, run });
        }
        self.kill(at);
    }

    /// `kill -9`: all state in memory is lost; sent calls are still on their way.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some((worker, leaving)) = self.processes[at].kill() {
            let moment =
                Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process: Some(at) };
            // A worker that was leaving may be retired in time, and then its jobs count no crash.
            let kind = if leaving { FaultKind::FailedCall } else { FaultKind::Kill };
            self.observer.fault(kind, worker, None, &moment);
            let after = self.rng.millis(500, 20_000);
            self.later(after, Happening::Starts { at });
        }
    }

    fn grant(&mut self, at: usize, wishes: Vec<Wish>) {
        let life = self.processes[at].life;
        for wish in wishes {
            let moment =
                Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process: Some(at) };
            match wish {
                Wish::Send(part, call) => self.send(Caller::Process { at, life, part }, call),
                Wish::Later(after, input) => self.later(after, Happening::ToProcess { at, life, input }),
                Wish::DieAfter(after, fence, run) => {
                    self.later(after, Happening::Dies { at, life, fence, run });
                }
                Wish::Started { claimed, worker } => self.observer.started(&claimed, worker, &moment),
                Wish::Ended(settlement) => self.observer.ended(&settlement, &moment),
                // The worker is cut off until a later heartbeat gets through; the next one may fail as late
                // as this.
                Wish::HeartbeatFailed(worker) => {
                    let until = Some(self.now + BEAT_EVERY + CALL_DEADLINE);
                    self.observer.fault(FaultKind::FailedCall, worker, until, &moment);
                }
                Wish::Leaves { worker, clean } => {
                    self.observer.leaves(worker, clean);
                    if !clean {
                        self.observer.fault(FaultKind::FailedCall, worker, None, &moment);
                    }
                }
                Wish::Gone => {
                    self.processes[at].body = None;
                    let after = self.rng.millis(500, 20_000);
                    self.later(after, Happening::Starts { at });
                }
                Wish::Broke(check, text) => self.observer.broke(check, text),
            }
        }
    }

    fn produces(&mut self, at: usize) {
        let made: u64 = self.producers.iter().map(Producer::made).sum();
        if self.healed.is_some() || made >= self.plan.jobs_max || self.producers[at].is_busy() {
            return;
        }
        let moment = Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process: None };
        let request = self.producers[at].produce(&mut self.observer, &moment);
        self.send(Caller::Producer(at), Call::Enqueue(request));
    }

    /// Whether no enqueue call is on its way and no producer is about to enqueue.
    pub(crate) fn is_quiet(&self) -> bool {
        let producing = self.producers.iter().any(Producer::is_busy);
        let enqueueing =
            self.calls.values().any(|on| !on.arrived && matches!(on.caller, Caller::Producer(_)));
        !producing && !enqueueing
    }
}
