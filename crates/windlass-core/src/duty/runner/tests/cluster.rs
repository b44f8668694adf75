//! Several processes, each with a lease client and a runner, and one store on a virtual clock: answers
//! are lost, processes freeze and die, runs hang. Runs write under their fence.

use super::*;
use crate::clock::Timestamp;
use crate::error::EngineError;
use crate::lease::lease_client::{LeaseClient, LeaseEffect, LeaseTiming};
use crate::lease::membership::{Membership, Peer};
use crate::lease::{DutyNotes, LeaseMetadata, LeaseRelease, LeaseRequest, Renewal, StoredLease};
use crate::limits::DUTY_EXPIRY;
use crate::test_rng::TestRng;
use crate::worker::WorkerId;

const PROCESSES: usize = 5;
const TICK: Duration = Duration::from_millis(50);

struct Process {
    lease_client: LeaseClient,
    runner: DutyRunner,
    /// The runs in progress, each with its fence and its end.
    runs: Vec<(RunId, LeaseFence, Moment)>,
    notes: DutyNotes,
    frozen_until: Moment,
}

impl Process {
    /// Stores the notes, which go with the heartbeats.
    fn note(&mut self, now: Moment) {
        let metadata = LeaseMetadata::of(&self.notes, &serde_json::Map::new()).expect("notes are small");
        self.lease_client.note(&prune(), metadata, now);
    }
}

/// A write at the end of a run: its time, and its fence.
type Write = (Moment, i64);

struct World {
    rng: TestRng,
    now: Moment,
    lease: Option<StoredLease>,
    processes: Vec<Process>,
    accepted: Vec<Write>,
    refused: u32,
    stuck: u32,
    /// One run in this number never ends by itself.
    hangs: u64,
    faults: bool,
}

impl World {
    fn new(seed: u64, spec: &DutySpec) -> Self {
        let peer = |bits| Peer { worker: WorkerId::from_random(bits), duties: vec![prune()] };
        let peers: Vec<_> = (0..PROCESSES as u128).map(peer).collect();
        let process = |me: &Peer| Process {
            lease_client: LeaseClient::new(
                [prune()],
                LeaseTiming::default(),
                Membership::of(me.worker, &me.duties, &peers),
                Moment::ZERO,
            ),
            runner: DutyRunner::new(spec.clone(), 0, Moment::ZERO),
            runs: Vec::new(),
            notes: DutyNotes { every: Some(spec.interval), ..DutyNotes::default() },
            frozen_until: Moment::ZERO,
        };
        Self {
            rng: TestRng(seed),
            now: Moment::ZERO,
            lease: None,
            processes: peers.iter().map(process).collect(),
            accepted: Vec::new(),
            refused: 0,
            stuck: 0,
            hangs: 0,
            faults: false,
        }
    }

    fn store_now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(SECOND * 1_000_000 + self.now)
    }

    fn save<T>(&mut self, (answer, after): (T, Option<StoredLease>)) -> T {
        self.lease = after.or(self.lease.take());
        answer
    }

    fn is_lost(&mut self) -> bool {
        self.faults && self.rng.below(10) == 0
    }

    /// Applies a process's requests to the store, and the answers to the process.
    fn of_leases(&mut self, process: usize, effects: Vec<LeaseEffect>) {
        for effect in effects {
            match effect {
                LeaseEffect::Start { lease, metadata } => self.leads(process, lease, metadata),
                LeaseEffect::Stop(_) => self.leads_no_longer(process),
                LeaseEffect::GiveWay(_) => self.give_back(process),
                LeaseEffect::Blocked { .. } | LeaseEffect::NoRoom { .. } => {
                    unreachable!("no transaction is open, and there is one lease")
                }
                LeaseEffect::Release(releases) => self.release(process, &releases),
                LeaseEffect::Renew { call, renewals } => {
                    let now = self.store_now();
                    let renew = |renewal: Renewal| {
                        let decided = StoredLease::renew(self.lease.as_ref(), &renewal, now);
                        (renewal.lease.clone(), self.save(decided))
                    };
                    let answers: Vec<_> = renewals.into_iter().map(renew).collect();
                    let answer = if self.is_lost() { Err(lost()) } else { Ok(answers) };
                    let then = self.processes[process].lease_client.renewed(call, answer, self.now);
                    self.of_leases(process, then);
                }
                LeaseEffect::Try { call, id, duties } => {
                    let request = LeaseRequest { worker: WorkerId::from_random(process as u128), id, duties };
                    let now = self.store_now();
                    let decided =
                        StoredLease::take(self.lease.as_ref(), &prune(), DUTY_EXPIRY, &request, now);
                    let taking = self.save(decided);
                    let answer = if self.is_lost() { Err(lost()) } else { Ok(vec![taking]) };
                    let then = self.processes[process].lease_client.tried(call, answer, self.now);
                    self.of_leases(process, then);
                }
            }
        }
    }

    fn leads(&mut self, process: usize, lease: LeaseFence, metadata: Option<LeaseMetadata>) {
        let now = self.now;
        let store_now = self.store_now();
        let process = &mut self.processes[process];
        let due_in = metadata.and_then(|metadata| {
            process.notes = DutyNotes { every: process.notes.every, ..metadata.notes() };
            process.notes.taken_over(store_now)
        });
        process.runner.gained(Some(lease), due_in, now);
        process.note(now);
    }

    /// Handles the loss of leadership. A run that hangs does not notice that it should stop, and until it
    /// ends its process wants no lease.
    fn leads_no_longer(&mut self, process: usize) {
        let now = self.now;
        let process = &mut self.processes[process];
        if let Some(DutyEffect::Stop(run)) = process.runner.lost() {
            process.runs.retain(|(id, _, until)| *id != run || *until == Moment::MAX);
            if process.runs.is_empty() {
                process.runner.ended(run, now);
            } else {
                assert_eq!(process.lease_client.want(&prune(), false, now), [], "it has released the lease");
            }
        }
    }

    fn give_back(&mut self, process: usize) {
        let now = self.now;
        let effects = self.processes[process].lease_client.give_way(&prune(), None, now);
        self.of_leases(process, effects);
    }

    fn release(&mut self, process: usize, releases: &[LeaseRelease]) {
        for release in releases {
            let decided = StoredLease::release(self.lease.as_ref(), release);
            self.save(decided);
        }
        let now = self.now;
        let others = self.processes.iter_mut().enumerate().filter(|(other, _)| *other != process);
        others.for_each(|(_, other)| other.lease_client.hinted(&prune(), now));
    }

    fn of_duty(&mut self, process: usize, effects: Vec<DutyEffect>) {
        for effect in effects {
            match effect {
                DutyEffect::Begin { run, fence } => {
                    let fence = fence.expect("a leader by lease has a fence");
                    let hangs = self.hangs > 0 && self.rng.below(self.hangs) == 0;
                    let took = Duration::from_millis(self.rng.below(3_000));
                    let until = if hangs { Moment::MAX } else { self.now + took };
                    let (now, store_now) = (self.now, self.store_now());
                    let process = &mut self.processes[process];
                    process.runs.push((run, fence, until));
                    assert_eq!(process.runs.len(), 1, "two runs of one duty in one process");
                    process.notes.began(store_now);
                    process.note(now);
                }
                DutyEffect::Stop(_) => unreachable!("only losing the lease stops a run"),
                DutyEffect::Stuck(_) => self.stuck += 1,
                DutyEffect::GiveWay => self.give_back(process),
            }
        }
    }

    /// Ends runs that are over. Runs write when they end, and the store accepts a write under a term that
    /// holds.
    fn end_runs(&mut self, process: usize) {
        let (now, store_now) = (self.now, self.store_now());
        let runs = std::mem::take(&mut self.processes[process].runs);
        let (over, left): (Vec<_>, Vec<_>) = runs.into_iter().partition(|(_, _, until)| *until <= now);
        self.processes[process].runs = left;
        for (run, fence, _) in over {
            let holds = self.lease.as_ref().is_some_and(|lease| lease.holds(fence.term, store_now));
            if holds {
                self.accepted.push((now, fence.term.fence));
            } else {
                self.refused += 1;
            }
            let process = &mut self.processes[process];
            process.runner.ended(run, now);
            process.notes.ended(Ok(1), SECOND, store_now);
            process.note(now);
            process.lease_client.want(&prune(), true, now);
        }
    }

    fn tick(&mut self) {
        self.now += TICK;
        let now = self.now;
        for process in 0..PROCESSES {
            if self.faults && self.rng.below(3_000) == 0 {
                self.processes[process].frozen_until = now + SECOND * self.rng.below(30) as u32;
            }
            if self.processes[process].frozen_until > now {
                continue;
            }
            // A process that wakes up late writes before it learns that its term is over: the fence must
            // catch that.
            self.end_runs(process);
            let fresh = self.rng.bits();
            let effects = self.processes[process].lease_client.effects(now, TermId::from_random(fresh));
            self.of_leases(process, effects);
            let effects = self.processes[process].runner.effects(now);
            self.of_duty(process, effects);
        }
        let leaders =
            self.processes.iter().filter(|process| process.lease_client.term(&prune(), now).is_some());
        assert!(leaders.count() <= 1, "two lead at {now:?}");
    }

    fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.tick();
        }
    }
}

fn lost() -> EngineError {
    EngineError::Unknown { why: "the answer was lost".to_owned() }
}

/// Returns the longest time between two accepted writes from an instant on.
fn longest_gap(writes: &[Write], from: Moment, until: Moment) -> Duration {
    let times: Vec<_> = writes.iter().map(|(at, _)| *at).filter(|at| *at >= from).collect();
    let ends = [from].into_iter().chain(times.iter().copied()).zip(times.iter().copied().chain([until]));
    ends.map(|(before, after)| after.saturating_sub(before)).max().unwrap_or_default()
}

fn fences_rise(writes: &[Write]) -> bool {
    writes.windows(2).all(|pair| pair[0].1 <= pair[1].1)
}

#[test]
fn without_faults_one_process_does_the_duty_every_interval() {
    for seed in 0..10 {
        let mut world = World::new(seed, &spec(DutyMode::Lease));
        world.run_for(SECOND * 600);
        assert!((59..=61).contains(&world.accepted.len()), "seed {seed}: {}", world.accepted.len());
        let fences: std::collections::BTreeSet<_> = world.accepted.iter().map(|(_, fence)| fence).collect();
        assert_eq!((fences.len(), world.refused, world.stuck), (1, 0, 0), "seed {seed}");
    }
}

#[test]
fn with_lost_answers_and_frozen_processes_old_terms_write_nothing_and_the_duty_goes_on() {
    let mut refused = 0;
    for seed in 0..30 {
        let mut world = World::new(seed, &spec(DutyMode::Lease));
        world.faults = true;
        world.run_for(SECOND * 3_000);
        assert!(fences_rise(&world.accepted), "seed {seed}: an old term wrote after a newer one");
        assert!(world.accepted.len() > 150, "seed {seed}: {} runs in 3,000 s", world.accepted.len());
        world.faults = false;
        world.processes.iter_mut().for_each(|process| process.frozen_until = Moment::ZERO);
        let since = world.now;
        world.run_for(SECOND * 120);
        let gap = longest_gap(&world.accepted, since, world.now);
        assert!(gap < DUTY_EXPIRY * 2 + SECOND * 20, "seed {seed}: nothing was done for {gap:?}");
        refused += world.refused;
    }
    assert!(refused > 0, "the fence was never needed, so the test showed nothing");
}

#[test]
fn a_leader_that_dies_is_followed_within_its_expiry_and_the_interval_goes_on() {
    for seed in 0..20 {
        let mut world = World::new(seed, &spec(DutyMode::Lease));
        world.run_for(SECOND * 60 + TICK * seed as u32);
        let leads = |process: &Process| process.lease_client.term(&prune(), world.now).is_some();
        let leader = world.processes.iter().position(leads).expect("no fault disturbed it");
        world.processes[leader].frozen_until = Moment::MAX;
        let since = world.now;
        world.run_for(SECOND * 60);
        let gap = longest_gap(&world.accepted, since, world.now);
        // The lease expires, another process takes it within a second, and its run takes up to three.
        assert!(gap < DUTY_EXPIRY + SECOND * 14, "seed {seed}: nothing was done for {gap:?}");
        assert!(fences_rise(&world.accepted), "seed {seed}");
    }
}

#[test]
fn a_run_that_dies_with_its_leader_is_done_again_by_the_next_and_not_an_interval_later() {
    for seed in 0..20 {
        let daily = DutySpec { interval: SECOND * 86_400, ..spec(DutyMode::Lease) };
        let mut world = World::new(seed, &daily);
        world.hangs = 1;
        world.run_for(SECOND * 5);
        let leader = world.processes.iter().position(|process| !process.runs.is_empty());
        world.processes[leader.expect("it has begun")].frozen_until = Moment::MAX;
        (world.hangs, world.accepted) = (0, Vec::new());
        world.run_for(DUTY_EXPIRY + SECOND * 5);
        assert_eq!(world.accepted.len(), 1, "seed {seed}: the next leader does it, and once is enough");
        world.run_for(SECOND * 600);
        assert_eq!(world.accepted.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_leader_that_hangs_is_told_of_and_another_goes_on() {
    for seed in 0..10 {
        let mut world = World::new(seed, &spec(DutyMode::Lease));
        world.run_for(SECOND * 60);
        world.hangs = 1;
        while !world
            .processes
            .iter()
            .any(|process| process.runs.iter().any(|(_, _, until)| *until == Moment::MAX))
        {
            world.tick();
        }
        world.hangs = 0;
        let since = world.now;
        world.run_for(spec(DutyMode::Lease).stuck_after() + SECOND * 60);
        assert_eq!(world.stuck, 1, "seed {seed}");
        let after: Vec<_> = world.accepted.iter().filter(|(at, _)| *at > since).collect();
        assert!(after.len() >= 4, "seed {seed}: {} runs", after.len());
        assert!(after[0].0 - since < SECOND * 320, "seed {seed}: the first after {:?}", after[0].0 - since);
    }
}

#[test]
fn leaders_take_turns_if_they_are_to() {
    let turns = DutySpec { rotation: Some(SECOND * 60), ..spec(DutyMode::Lease) };
    let mut world = World::new(1, &turns);
    world.run_for(SECOND * 1_200);
    let fences: std::collections::BTreeSet<_> = world.accepted.iter().map(|(_, fence)| fence).collect();
    assert!(fences.len() >= 15, "{} terms", fences.len());
    assert!(longest_gap(&world.accepted, Moment::ZERO, world.now) < SECOND * 20);
    assert_eq!(world.refused, 0);
}

#[test]
fn a_process_whose_run_hangs_does_not_take_the_lease_again_even_if_all_others_die() {
    let mut world = World::new(3, &spec(DutyMode::Lease));
    world.hangs = 1;
    world.run_for(spec(DutyMode::Lease).stuck_after() + SECOND * 60);
    let hangs = world.processes.iter().position(|process| {
        !process.runs.is_empty() && process.lease_client.term(&prune(), world.now).is_none()
    });
    let hangs = hangs.expect("one process hangs, and another leads");
    for (index, process) in world.processes.iter_mut().enumerate() {
        process.frozen_until = if index == hangs { Moment::ZERO } else { Moment::MAX };
    }
    world.run_for(SECOND * 60);
    let holder = world.lease.as_ref().filter(|lease| lease.is_held(world.store_now()));
    assert_eq!(holder.and_then(|lease| lease.holder), None, "it would only keep the lease from others");
    assert_eq!(world.stuck, 1);
}

#[test]
fn one_process_alone_does_not_take_turns_with_itself() {
    let turns = DutySpec { rotation: Some(SECOND * 60), ..spec(DutyMode::Lease) };
    let mut runner = DutyRunner::new(turns, 0, Moment::ZERO);
    runner.gained(Some(fence(7)), None, Moment::ZERO);
    runner.saw(true);
    for turn in 0..30 {
        assert_eq!(runner.wake_at(), at(turn * 10));
        let run = begins(&mut runner, at(turn * 10));
        runner.ended(run, at(turn * 10));
    }
    runner.saw(false);
    assert_eq!(runner.effects(at(300)), [DutyEffect::GiveWay], "now another process could do the duty");
}
