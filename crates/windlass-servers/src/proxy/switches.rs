//! The faults that a test has switched on in a proxy.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::link::Link;
use super::pump::Direction;

/// More connections than this are closed at once.
const LINKS_MAX: usize = 1_000;

/// Locks are taken in the order in which the fields are declared.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// Held for reading while bytes move. A caller that has changed the settings therefore knows that no
    /// byte moves by the old ones.
    settings: RwLock<Settings>,
    /// How many bytes of answers may still pass. Locked while they do.
    answers_left: Mutex<Option<usize>>,
    links: Mutex<Links>,
    connections: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) frozen: bool,
    pub(super) holding: bool,
    pub(super) swallowing: bool,
    pub(super) refusing: bool,
    pub(super) answer_delay: Duration,
}

#[derive(Debug, Default)]
struct Links {
    open: Vec<Arc<Link>>,
    /// No further link is accepted.
    is_over: bool,
}

/// What happens to some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They stay for now.
    Wait,
    /// They are dropped.
    Drop,
    /// At most this number of them is forwarded.
    Pass(usize),
}

impl Switches {
    /// Changes the settings. No byte moves by the old settings after this.
    pub(super) fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether no byte moves in this direction.
    pub(super) fn is_still(&self, direction: Direction) -> bool {
        let settings = self.settings();
        settings.frozen || (settings.holding && direction == Direction::Question)
    }

    pub(super) fn is_refusing(&self) -> bool {
        self.settings().refusing
    }

    pub(super) fn answer_delay(&self) -> Duration {
        self.settings().answer_delay
    }

    pub(super) fn cut_after_answers(&self, bytes: usize) {
        *locked(&self.answers_left) = Some(bytes);
        if bytes == 0 {
            self.spend(&mut locked(&self.answers_left), 0);
        }
    }

    /// Decides what happens to some bytes and moves them, while no caller can change a setting.
    pub(super) fn decide(
        &self,
        direction: Direction,
        count: usize,
        act: impl FnOnce(Verdict) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let settings = self.settings();
        match direction {
            _ if settings.frozen => act(Verdict::Wait),
            Direction::Question if settings.holding => act(Verdict::Wait),
            Direction::Question => act(Verdict::Pass(count)),
            Direction::Answer if settings.swallowing => act(Verdict::Drop),
            Direction::Answer => self.answer(count, act),
        }
    }

    fn answer(&self, count: usize, act: impl FnOnce(Verdict) -> io::Result<usize>) -> io::Result<usize> {
        let mut left = locked(&self.answers_left);
        // Without a limit, answers do not wait for each other.
        let Some(most) = *left else {
            drop(left);
            return act(Verdict::Pass(count));
        };
        let moved = act(Verdict::Pass(count.min(most)))?;
        self.spend(&mut left, moved);
        Ok(moved)
    }

    /// Subtracts the moved bytes from the remaining ones, and cuts all links when none remain.
    fn spend(&self, left: &mut Option<usize>, moved: usize) {
        *left = left.map(|most| most - moved).filter(|most| *most > 0);
        if left.is_none() {
            self.cut_all();
        }
    }

    pub(super) fn cut_all(&self) {
        locked(&self.links).open.iter().for_each(|link| link.cut());
    }

    /// Cuts all links, for good.
    pub(super) fn end(&self) {
        locked(&self.links).is_over = true;
        self.cut_all();
    }

    pub(super) fn is_over(&self) -> bool {
        locked(&self.links).is_over
    }

    /// Adds a link, and returns whether it was accepted.
    pub(super) fn add(&self, link: &Arc<Link>) -> bool {
        let mut links = locked(&self.links);
        let has_room = !links.is_over && links.open.len() < LINKS_MAX;
        if has_room {
            links.open.push(Arc::clone(link));
        }
        has_room
    }

    pub(super) fn remove(&self, link: &Arc<Link>) {
        locked(&self.links).open.retain(|other| !Arc::ptr_eq(other, link));
    }

    pub(super) fn open_links(&self) -> usize {
        locked(&self.links).open.iter().filter(|link| !link.is_cut()).count()
    }

    pub(super) fn stuck_links(&self) -> usize {
        locked(&self.links).open.iter().filter(|link| link.is_stuck()).count()
    }

    pub(super) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    fn settings(&self) -> RwLockReadGuard<'_, Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a mutex. A thread that panicked has left no partial change in it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
