//! Several keepers and one store on a virtual clock: messages are late or lost, processes freeze, and the store's clock steps
//! back. At no moment may two of them trust the lease.

use super::*;
use crate::clock::Timestamp;
use crate::lease::{LeaseRecord, LeaseRequest, Released, Renewal};

const PROCESSES: usize = 5;
const TICK: Duration = Duration::from_millis(20);

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) % count
    }

    fn millis(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.below(below))
    }
}

/// On its way to the store, or back.
enum Message {
    Try(LeaseRequest),
    Renew(Vec<LeaseFence>),
    Release(LeaseFence),
    Tried(Result<Vec<Taking>, EngineError>),
    Renewed(Result<Vec<(LeaseFence, Renewed)>, EngineError>),
}

struct World {
    dice: Dice,
    now: Moment,
    /// How far the store's clock is ahead of a start late enough for all steps back.
    store_clock: Duration,
    lease: Option<LeaseRecord>,
    keepers: Vec<LeaseKeeper>,
    frozen_until: Vec<Moment>,
    /// When each arrives, and at or from which process.
    messages: Vec<(Moment, usize, Message)>,
    last_fence: i64,
    leaders_seen: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let live: Vec<_> = (0..PROCESSES as u128).map(WorkerId::from_random).collect();
        let keeper = |me: &WorkerId| {
            LeaseKeeper::new([rescue()], LeaseTiming::default(), Crowd::of(*me, &live), Moment::ZERO)
        };
        Self {
            dice: Dice(seed),
            now: Moment::ZERO,
            store_clock: SECOND * 1_000_000,
            lease: None,
            keepers: live.iter().map(keeper).collect(),
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
        let late = if slow && self.dice.below(20) == 0 { 15_000 } else { 60 };
        let at = self.now + self.dice.millis(late);
        self.messages.push((at, process, message));
    }

    fn act(&mut self, process: usize, effects: Vec<LeaseEffect>, faults: bool) {
        for effect in effects {
            match effect {
                LeaseEffect::Try { duties, id } => {
                    let duties = duties.into_iter().map(|duty| (duty, DUTY_EXPIRY)).collect();
                    let worker = WorkerId::from_random(process as u128);
                    self.send(process, Message::Try(LeaseRequest { worker, id, duties }), faults);
                }
                LeaseEffect::Renew(leases) => self.send(process, Message::Renew(leases), faults),
                LeaseEffect::GiveWay(lease) => {
                    let now = self.now;
                    self.keepers[process].released(&rescue(), now);
                    self.send(process, Message::Release(lease), faults);
                }
                LeaseEffect::Start(lease) => {
                    assert!(lease.term.fence >= self.last_fence, "a term before the last one was started");
                    self.leaders_seen += u32::from(lease.term.fence > self.last_fence);
                    self.last_fence = lease.term.fence;
                }
                LeaseEffect::Stop(_) => {}
            }
        }
    }

    fn save<T>(&mut self, (answer, after): (T, Option<LeaseRecord>)) -> T {
        self.lease = after.or(self.lease.take());
        answer
    }

    /// What the store does with a message, and what it answers.
    fn store(&mut self, message: Message) -> Option<Message> {
        let now = self.store_now();
        match message {
            Message::Try(request) => {
                let decided = LeaseRecord::take(self.lease.as_ref(), &rescue(), DUTY_EXPIRY, &request, now);
                Some(Message::Tried(Ok(vec![self.save(decided)])))
            }
            Message::Renew(leases) => {
                let renewals = leases.into_iter().map(|lease| Renewal { lease, metadata: None });
                let answers = renewals.map(|renewal| {
                    let decided = LeaseRecord::renew(self.lease.as_ref(), &renewal, now);
                    (renewal.lease, self.save(decided))
                });
                Some(Message::Renewed(Ok(answers.collect())))
            }
            Message::Release(lease) => {
                let decided = LeaseRecord::release(self.lease.as_ref(), lease.term);
                if self.save(decided) == Released::Done {
                    let now = self.now;
                    self.keepers.iter_mut().for_each(|keeper| keeper.hinted(&rescue(), now));
                }
                None
            }
            answer => Some(answer),
        }
    }

    /// One message arrives: at the store, whose answer may be lost, or back at its process.
    fn deliver(&mut self, process: usize, message: Message, faults: bool) {
        let now = self.now;
        let effects = match message {
            Message::Tried(answer) => self.keepers[process].tried(answer, now),
            Message::Renewed(answer) => self.keepers[process].renewed(answer, now),
            to_store => {
                // Lost before it has an effect, after it, or not at all.
                let fate = if faults { self.dice.below(12) } else { 9 };
                let is_try = matches!(to_store, Message::Try(_));
                let lost =
                    || if is_try { Message::Tried(Err(unknown())) } else { Message::Renewed(Err(unknown())) };
                let is_release = matches!(to_store, Message::Release(_));
                let answer = if fate == 0 { None } else { self.store(to_store) };
                let answer = if fate <= 1 { (!is_release).then(lost) } else { answer };
                if let Some(answer) = answer {
                    self.send(process, answer, faults);
                }
                Vec::new()
            }
        };
        self.act(process, effects, faults);
    }

    fn tick(&mut self, faults: bool) {
        self.now += TICK;
        self.store_clock += TICK;
        if faults && self.dice.below(2_000) == 0 {
            self.store_clock -= self.dice.millis(60_000);
        }
        if faults
            && self.dice.below(1_000) == 0
            && let Some(lease) = self.lease.take()
        {
            let (_, asked) = LeaseRecord::step_down(Some(&lease), self.store_now());
            self.lease = asked.or(Some(lease));
        }
        let now = self.now;
        let is_frozen = |frozen: &[Moment], process: usize| frozen[process] > now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.messages).into_iter().partition(|(at, process, message)| {
                let to_process = matches!(message, Message::Tried(_) | Message::Renewed(_));
                *at <= now && !(to_process && is_frozen(&self.frozen_until, *process))
            });
        self.messages = later;
        due.into_iter().for_each(|(_, process, message)| self.deliver(process, message, faults));
        for process in 0..PROCESSES {
            if faults && self.dice.below(1_500) == 0 {
                self.frozen_until[process] = now + self.dice.millis(30_000);
            }
            if !is_frozen(&self.frozen_until, process) && self.keepers[process].wake_at() <= now {
                let fresh =
                    u128::from(self.dice.below(u64::MAX)) << 64 | u128::from(self.dice.below(u64::MAX));
                let effects = self.keepers[process].effects(now, id(fresh));
                self.act(process, effects, faults);
            }
        }
    }

    fn trusting(&self) -> usize {
        self.keepers.iter().filter(|keeper| keeper.term(&rescue(), self.now).is_some()).count()
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
                "seed {seed}: nobody leads after {took:?} without faults"
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
        let leads = |keeper: &LeaseKeeper| keeper.term(&rescue(), world.now).is_some();
        let leader = world.keepers.iter().position(leads).expect("nobody disturbed it");
        world.frozen_until[leader] = Moment::MAX;
        let (since, fence) = (world.now, world.last_fence);
        while world.last_fence == fence {
            world.tick(false);
            assert!(world.now - since < DUTY_EXPIRY + SECOND, "seed {seed}");
        }
    }
}
