//! A live worker is never suspected, and a dead one is, whatever the store does meanwhile: the real
//! heartbeat logic of a worker and the real observer of another process, on a virtual clock.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use windlass_core::worker::Liveness;

use super::*;
use crate::worker::heart::{Heart, HeartEffect};
use crate::worker::pool::CallFailure;

const TICK: Duration = Duration::from_millis(50);

/// The timing of a process, and when it begins.
#[derive(Debug, Clone)]
struct Pace {
    lease: Duration,
    heartbeat: Duration,
    phase: Duration,
}

/// A worker, and its row in the store.
struct Process {
    id: WorkerId,
    lease: Duration,
    registers: Moment,
    heart: Heart,
    beats: u64,
    expires: Moment,
    failed: u64,
    /// When a call that hangs is abandoned, which is after an interval; it is answered if the store works
    /// again before.
    gives_up: Option<Moment>,
    heartbeat: Duration,
}

impl Process {
    fn new(id: WorkerId, pace: &Pace) -> Self {
        let Pace { lease, heartbeat, phase } = *pace;
        Self {
            id,
            lease,
            registers: phase,
            heart: Heart::new(lease, heartbeat, phase),
            beats: 0,
            expires: phase.saturating_add(lease),
            failed: 0,
            gives_up: None,
            heartbeat,
        }
    }

    fn live(&mut self, now: Moment, store: State) {
        if self.gives_up.is_some() && matches!(store, State::Well) {
            self.beat(now);
        } else if self.gives_up.is_some_and(|at| now >= at) {
            self.fail(now);
        }
        if !self.heart.effects(now).contains(&HeartEffect::Send) {
            return;
        }
        match store {
            State::Well => self.beat(now),
            State::Refuses => self.fail(now),
            State::Hangs => self.gives_up = Some(now + self.heartbeat),
        }
    }

    fn beat(&mut self, now: Moment) {
        self.gives_up = None;
        self.beats += 1;
        self.expires = now + self.lease;
        self.heart.answered(Ok(Liveness::Alive { cancel: Vec::new() }), now);
    }

    fn fail(&mut self, now: Moment) {
        self.gives_up = None;
        self.failed += 1;
        self.heart.answered(Err(CallFailure::NotDone), now);
    }

    fn seen(&self, now: Moment) -> Option<WorkerSighting> {
        let card = WorkerCard {
            id: self.id,
            host: String::new(),
            pid: 1,
            version: String::new(),
            queues: vec![],
            types: vec![],
            duties: Vec::new(),
            slots: 0,
            lease: self.lease,
        };
        let sighting = WorkerSighting {
            card,
            since: Timestamp::EPOCH,
            beats: self.beats,
            expired: now >= self.expires,
            silent_for: Duration::ZERO,
            proof: ProofOfLife::None,
            running: 1,
            clock_ahead_micros: None,
        };
        (now >= self.registers).then_some(sighting)
    }
}

/// The store's reaction to a heartbeat.
#[derive(Debug, Clone, Copy)]
enum State {
    Well,
    Refuses,
    Hangs,
}

/// A store that can always be read, and can be written except during some spans.
#[derive(Debug, Clone)]
struct Story {
    observer: Pace,
    other: Pace,
    sweep: Duration,
    /// The delay of each sweep.
    late: Vec<Duration>,
    /// How long the store can be written, and then cannot, in turn.
    spans: Vec<(Duration, Duration)>,
    /// Whether writes then hang or are refused.
    hangs: bool,
}

impl Story {
    fn state(&self, now: Moment) -> State {
        let mut begins = Moment::ZERO;
        for (well, full) in &self.spans {
            let fills = begins + *well;
            begins = fills + *full;
            if now < fills {
                return State::Well;
            }
            if now < begins {
                return if self.hangs { State::Hangs } else { State::Refuses };
            }
        }
        State::Well
    }

    fn lasts(&self) -> Duration {
        self.spans.iter().map(|(well, full)| *well + *full).sum()
    }

    /// When the other worker is first suspected, if it is; after `dies` it sends no heartbeats.
    fn suspected(&self, dies: Option<Moment>) -> Option<Moment> {
        let pace = WatchPace { heartbeat: self.observer.heartbeat, sweep: self.sweep };
        let mut observer = Observer::new(pace, 3);
        let mut own = Process::new(OWN, &self.observer);
        let mut other = Process::new(OTHER, &self.other);
        let (mut now, mut look_at, mut looks) = (Moment::ZERO, self.sweep, self.late.iter().cycle());
        let end = dies.unwrap_or_else(|| self.lasts()) + (self.observer.lease + self.other.lease) * 4;
        while now < end {
            own.live(now, self.state(now));
            if dies.is_none_or(|dies| now < dies) {
                other.live(now, self.state(now));
            }
            if now >= look_at {
                let own_now = Own { worker: OWN, failed: own.failed };
                let seen: Vec<_> = [own.seen(now), other.seen(now)].into_iter().flatten().collect();
                let asked = observer.next(&Ask::Look, &Answer::Workers(&seen, own_now), Role::Leader, now);
                if matches!(asked, Some(Ask::Rescue(request)) if !request.silent.is_empty()) {
                    return Some(now);
                }
                look_at = now + self.sweep + *looks.next().expect("the iterator cycles");
            }
            now += TICK;
        }
        None
    }
}

fn millis(from: u64, to: u64) -> impl Strategy<Value = Duration> {
    (from..=to).prop_map(Duration::from_millis)
}

/// A heartbeat is at most half of the lease, as options are checked.
fn pace() -> impl Strategy<Value = Pace> {
    (millis(4_000, 40_000), 10_u32..=50, millis(0, 20_000)).prop_map(|(lease, percent, phase)| Pace {
        lease,
        heartbeat: lease * percent / 100,
        phase,
    })
}

fn story(
    well: impl Strategy<Value = Duration>,
    full: impl Strategy<Value = Duration>,
    hangs: impl Strategy<Value = bool>,
) -> impl Strategy<Value = Story> {
    let spans = proptest::collection::vec((well, full), 1..20);
    let late = proptest::collection::vec(millis(0, 500), 1..20);
    (pace(), pace(), millis(500, 6_000), late, spans, hangs).prop_map(
        |(observer, other, sweep, late, spans, hangs)| Story { observer, other, sweep, late, spans, hangs },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn however_long_a_store_is_full_no_live_worker_is_suspected(
        story in story(millis(30_000, 90_000), millis(0, 120_000), any::<bool>()),
    ) {
        prop_assert_eq!(story.suspected(None), None);
    }

    #[test]
    fn a_dead_worker_is_suspected_however_the_paces_are_mixed(
        story in story(millis(0, 1), millis(0, 1), Just(false)), dies in millis(1_000, 60_000),
    ) {
        let longest = story.other.lease.max(story.observer.lease) * 3 + story.sweep * 6;
        let suspected = story.suspected(Some(dies));
        prop_assert!(suspected.is_some_and(|at| at <= dies + longest + story.other.phase), "{:?}", suspected);
    }
}

/// A store that can be written only now and then can deceive an observer: its own few heartbeats are stored
/// by chance, while those of another worker are not. Among processes with the same timing that must stay
/// rare.
#[test]
fn while_a_store_is_full_most_of_the_time_hardly_any_live_worker_is_suspected() {
    let mut runner = TestRunner::deterministic();
    let stories = story(millis(50, 3_000), millis(500, 9_000), Just(false));
    let mut is_deceived = |_: &u32| {
        let mut story = stories.new_tree(&mut runner).expect("nothing is filtered").current();
        story.other = Pace { phase: story.other.phase, ..story.observer.clone() };
        story.suspected(None).is_some()
    };
    let deceived = (0..6_000).filter(|at| is_deceived(at)).count();
    assert!(deceived <= 2, "{deceived} of 6,000");
}
