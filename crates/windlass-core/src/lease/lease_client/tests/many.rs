//! Several lease clients and one store on a virtual clock: messages are late or lost, processes freeze,
//! and the store's clock steps back. At no moment may two clients trust the lease.

use super::*;
use crate::clock::Timestamp;
use crate::lease::{LeaseRelease, LeaseRequest, Released, Renewal, StoredLease};
use crate::test_rng::TestRng;

const PROCESSES: usize = 5;
const TICK: Duration = Duration::from_millis(20);

/// A message in flight to the store, or back.
enum Message {
    Try(LeaseCall, LeaseRequest),
    Renew(LeaseCall, Vec<Renewal>),
    Release(LeaseRelease),
    Tried(LeaseCall, Result<Vec<Taking>, EngineError>),
    Renewed(LeaseCall, Result<Vec<(LeaseFence, Renewed)>, EngineError>),
}

impl Message {
    /// Returns the answer to a caller that cannot know whether the store applied the message.
    fn unknown(&self) -> Option<Message> {
        match self {
            Self::Try(call, _) => Some(Self::Tried(*call, Err(unknown()))),
            Self::Renew(call, _) => Some(Self::Renewed(*call, Err(unknown()))),
            _ => None,
        }
    }
}

struct World {
    rng: TestRng,
    now: Moment,
    /// How far the store's clock is ahead of a start that is late enough for all steps back.
    store_clock: Duration,
    lease: Option<StoredLease>,
    lease_clients: Vec<LeaseClient>,
    frozen_until: Vec<Moment>,
    /// When each message arrives, and at or from which process.
    messages: Vec<(Moment, usize, Message)>,
    last_fence: i64,
    leaders_seen: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let peer = |bits| Peer { worker: WorkerId::from_random(bits), duties: vec![rescue()] };
        let live: Vec<_> = (0..PROCESSES as u128).map(peer).collect();
        let lease_client = |me: &Peer| {
            let membership = Membership::of(me.worker, &me.duties, &live);
            LeaseClient::new([rescue()], LeaseTiming::default(), membership, Moment::ZERO)
        };
        Self {
            rng: TestRng(seed),
            now: Moment::ZERO,
            store_clock: SECOND * 1_000_000,
            lease: None,
            lease_clients: live.iter().map(lease_client).collect(),
            frozen_until: vec![Moment::ZERO; PROCESSES],
            messages: Vec::new(),
            last_fence: 0,
            leaders_seen: 0,
        }
    }

    fn store_now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.store_clock)
    }

    fn send(&mut self, process: usize, message: Message, slow: bool) {
        let late = if slow && self.rng.below(20) == 0 { 15_000 } else { 60 };
        let at = self.now + self.rng.millis(late);
        self.messages.push((at, process, message));
    }

    fn act(&mut self, process: usize, effects: Vec<LeaseEffect>, faults: bool) {
        for effect in effects {
            match effect {
                LeaseEffect::Try { call, id, duties } => {
                    let worker = WorkerId::from_random(process as u128);
                    self.send(process, Message::Try(call, LeaseRequest { worker, id, duties }), faults);
                }
                LeaseEffect::Renew { call, renewals } => {
                    self.send(process, Message::Renew(call, renewals), faults);
                }
                LeaseEffect::GiveWay(lease) => {
                    let now = self.now;
                    let effects = self.lease_clients[process].give_way(&lease.duty, None, now);
                    self.act(process, effects, faults);
                }
                LeaseEffect::Release(releases) => {
                    releases.into_iter().for_each(|one| self.send(process, Message::Release(one), faults));
                }
                LeaseEffect::Start { lease, .. } => {
                    assert!(lease.term.fence >= self.last_fence, "a term before the last one was started");
                    self.leaders_seen += u32::from(lease.term.fence > self.last_fence);
                    self.last_fence = lease.term.fence;
                }
                LeaseEffect::Stop(_) | LeaseEffect::Blocked { .. } | LeaseEffect::NoRoom { .. } => {}
            }
        }
    }

    fn save<T>(&mut self, (answer, after): (T, Option<StoredLease>)) -> T {
        self.lease = after.or(self.lease.take());
        answer
    }

    /// Applies a message to the store, and returns the answer.
    fn store(&mut self, message: Message) -> Option<Message> {
        let now = self.store_now();
        match message {
            Message::Try(call, request) => {
                let decided = StoredLease::take(self.lease.as_ref(), &rescue(), DUTY_EXPIRY, &request, now);
                Some(Message::Tried(call, Ok(vec![self.save(decided)])))
            }
            Message::Renew(call, renewals) => {
                let answers = renewals.into_iter().map(|renewal| {
                    let decided = StoredLease::renew(self.lease.as_ref(), &renewal, now);
                    (renewal.lease, self.save(decided))
                });
                Some(Message::Renewed(call, Ok(answers.collect())))
            }
            Message::Release(release) => {
                let decided = StoredLease::release(self.lease.as_ref(), &release);
                if self.save(decided) == Released::Done {
                    let now = self.now;
                    self.lease_clients
                        .iter_mut()
                        .for_each(|lease_client| lease_client.hinted(&rescue(), now));
                }
                None
            }
            answer => Some(answer),
        }
    }

    /// Delivers one message: to the store, whose answer may be lost, or back to its process.
    fn deliver(&mut self, process: usize, message: Message, faults: bool) {
        let now = self.now;
        let effects = match message {
            Message::Tried(call, answer) => self.lease_clients[process].tried(call, answer, now),
            Message::Renewed(call, answer) => self.lease_clients[process].renewed(call, answer, now),
            to_store => {
                let answer = self.answer_or_fault(process, to_store, faults);
                answer.into_iter().for_each(|answer| self.send(process, answer, faults));
                Vec::new()
            }
        };
        self.act(process, effects, faults);
    }

    /// Returns the answer to a message to the store. The message may be lost before or after its effect,
    /// with or without an error for the caller; or the caller gives up, and the message arrives later all
    /// the same.
    fn answer_or_fault(&mut self, process: usize, message: Message, faults: bool) -> Option<Message> {
        let unknown = message.unknown();
        match if faults { self.rng.below(24) } else { 23 } {
            0 => unknown,
            1 => self.store(message).and(unknown),
            2 => None,
            3 => self.store(message).and(None),
            4 => {
                let late = self.now + self.rng.millis(20_000);
                self.messages.push((late, process, message));
                unknown
            }
            _ => self.store(message),
        }
    }

    fn tick(&mut self, faults: bool) {
        self.now += TICK;
        self.store_clock += TICK;
        if faults && self.rng.below(2_000) == 0 {
            self.store_clock -= self.rng.millis(60_000);
        }
        if faults
            && self.rng.below(1_000) == 0
            && let Some(lease) = self.lease.take()
        {
            let (_, asked) = StoredLease::step_down(Some(&lease), self.store_now());
            self.lease = asked.or(Some(lease));
        }
        let now = self.now;
        let is_frozen = |frozen: &[Moment], process: usize| frozen[process] > now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.messages).into_iter().partition(|(at, process, message)| {
                let to_process = matches!(message, Message::Tried(..) | Message::Renewed(..));
                *at <= now && !(to_process && is_frozen(&self.frozen_until, *process))
            });
        self.messages = later;
        due.into_iter().for_each(|(_, process, message)| self.deliver(process, message, faults));
        for process in 0..PROCESSES {
            if faults && self.rng.below(1_500) == 0 {
                self.frozen_until[process] = now + self.rng.millis(30_000);
            }
            if !is_frozen(&self.frozen_until, process) && self.lease_clients[process].wake_at() <= now {
                let fresh = self.rng.bits();
                let effects = self.lease_clients[process].effects(now, id(fresh));
                self.act(process, effects, faults);
            }
        }
    }

    fn trusting(&self) -> usize {
        self.lease_clients
            .iter()
            .filter(|lease_client| lease_client.term(&rescue(), self.now).is_some())
            .count()
    }
}

#[test]
fn of_many_processes_with_late_and_lost_messages_freezes_and_a_clock_that_steps_back_at_most_one_leads() {
    let mut leaders = 0;
    for seed in 0..40 {
        let mut world = World::new(seed);
        for _ in 0..30_000 {
            world.tick(true);
            assert!(world.trusting() <= 1, "seed {seed}: two lead at {:?}", world.now);
        }
        world.frozen_until.fill(Moment::ZERO);
        let since = world.now;
        while world.trusting() == 0 {
            world.tick(false);
            let took = world.now - since;
            assert!(
                took < DUTY_EXPIRY + SECOND * 16,
                "seed {seed}: no process leads after {took:?} without faults"
            );
        }
        leaders += world.leaders_seen;
    }
    assert!(leaders > 400, "the lease changed hands {leaders} times");
}

#[test]
fn when_the_leader_dies_another_leads_within_its_expiry_and_a_second() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        while world.trusting() == 0 {
            world.tick(false);
        }
        (0..500 + seed).for_each(|_| world.tick(false));
        let leads = |lease_client: &LeaseClient| lease_client.term(&rescue(), world.now).is_some();
        let leader = world.lease_clients.iter().position(leads).expect("no fault disturbed it");
        world.frozen_until[leader] = Moment::MAX;
        let (since, fence) = (world.now, world.last_fence);
        while world.last_fence == fence {
            world.tick(false);
            assert!(world.now - since < DUTY_EXPIRY + SECOND, "seed {seed}");
        }
    }
}
