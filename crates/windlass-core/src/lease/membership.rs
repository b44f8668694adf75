//! How many processes share the polling of leases that others hold. A few processes stand by and poll
//! whenever a lease could have expired. All others poll so rarely that together they send one request a
//! second, however many they are.
//!
//! A store counts them where it takes a worker's heartbeat, so that no process must read a list of all
//! workers. A worker whose heartbeats stopped does not count, long before its worker lease has run out:
//! otherwise dead workers would stand by.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::STAND_BYS;
use crate::names::DutyName;
use crate::worker::WorkerId;

/// Points of the ring are below 2 to this power: a number that is kept as floating point is still exact.
const POINT_BITS: u32 = 53;

/// The ring position of a process that counts only itself: the middle.
const RING_POSITION_ALONE: u16 = 1 << 15;

/// The point of a worker on the ring of all workers, the same for every process and every build (FNV-1a,
/// then mixed once more, since its high bits alone hardly depend on the last bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingPoint(u64);

impl RingPoint {
    /// Returns the point of this worker.
    pub fn of(worker: WorkerId) -> Self {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let folded =
            worker.to_bytes().iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        Self((folded ^ (folded >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - POINT_BITS))
    }

    /// Returns the point as a store keeps it: from 0 to 2^53.
    pub fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }

    fn ring_position(self) -> u16 {
        (self.0 >> (POINT_BITS - u16::BITS)) as u16
    }
}

/// Whether a worker whose last heartbeat was this long ago counts among those that could do a duty: it
/// missed at most one heartbeat of the three in its worker lease.
pub fn is_live(silent_for: Duration, worker_lease: Duration) -> bool {
    silent_for <= worker_lease / 2
}

/// A live worker, and the duties that it could do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The worker.
    pub worker: WorkerId,
    /// The duties that it could do.
    pub duties: Vec<DutyName>,
}

/// The number of live workers as a store counts them, including the requesting worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberCount {
    /// The workers that could do any duty.
    pub live: u32,
    /// The counts for each duty of the requesting worker.
    pub duties: Vec<DutyCount>,
}

/// The number of workers that could do one duty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DutyCount {
    /// The duty.
    pub duty: DutyName,
    /// The workers that could do it.
    pub able: u32,
    /// Those of them whose place is lower than that of the requesting worker.
    pub before: u32,
}

impl MemberCount {
    /// Counts for one worker. The tests compare engines that count by themselves with this.
    pub fn of<'a>(me: WorkerId, duties: impl IntoIterator<Item = &'a DutyName>, heard: &[Peer]) -> Self {
        let mine = RingPoint::of(me);
        let others = || heard.iter().filter(|peer| peer.worker != me && !peer.duties.is_empty());
        let count = |duty: &DutyName| {
            let able = || others().filter(|peer| peer.duties.contains(duty));
            let before = able().filter(|peer| RingPoint::of(peer.worker) < mine).count();
            DutyCount { duty: duty.clone(), able: with_me(able().count()), before: as_u32(before) }
        };
        Self { live: with_me(others().count()), duties: duties.into_iter().map(count).collect() }
    }
}

/// Other live workers that could do the same duties, as a store counts them: by their sets of duties, of
/// which there are few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Others {
    /// What each of these workers could do; at least one duty.
    pub duties: Vec<DutyName>,
    /// The number of these workers.
    pub able: u32,
    /// Those of them whose place is lower than that of the requesting worker.
    pub before: u32,
}

impl MemberCount {
    /// Counts for one worker that could do these duties, when the others are counted already.
    pub fn among<'a>(duties: impl IntoIterator<Item = &'a DutyName>, others: &[Others]) -> Self {
        let sum = |of: &mut dyn Iterator<Item = u32>| of.fold(0, u32::saturating_add);
        let count = |duty: &DutyName| {
            let able = || others.iter().filter(|set| set.duties.contains(duty));
            DutyCount {
                duty: duty.clone(),
                able: sum(&mut able().map(|set| set.able)).saturating_add(1),
                before: sum(&mut able().map(|set| set.before)),
            }
        };
        let live = sum(&mut others.iter().map(|set| set.able)).saturating_add(1);
        Self { live, duties: duties.into_iter().map(count).collect() }
    }
}

fn as_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn with_me(others: usize) -> u32 {
    as_u32(others).saturating_add(1)
}

/// One process among the live ones, for each of its duties. Only processes that could do a duty stand by
/// for it: if three stood by that cannot do it, no process would take it over in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    live: u32,
    ring_position: u16,
    duties: BTreeMap<DutyName, (u32, u32)>,
}

impl Membership {
    /// Creates the membership of a process that knows of no others yet.
    pub fn alone() -> Self {
        Self { live: 1, ring_position: RING_POSITION_ALONE, duties: BTreeMap::new() }
    }

    /// Creates the membership from the count of a store.
    pub fn new(me: WorkerId, count: MemberCount) -> Self {
        let of_duty = |count: DutyCount| (count.duty, (count.able, count.before));
        Self {
            live: count.live,
            ring_position: RingPoint::of(me).ring_position(),
            duties: count.duties.into_iter().map(of_duty).collect(),
        }
    }

    /// Creates the membership of this process and its duties among all live workers.
    pub fn of<'a>(me: WorkerId, duties: impl IntoIterator<Item = &'a DutyName>, heard: &[Peer]) -> Self {
        Self::new(me, MemberCount::of(me, duties, heard))
    }

    /// Returns this process's place among those that could do one duty; alone if the duty was not named.
    pub fn of_duty(&self, duty: &DutyName) -> Member {
        let (able, before) = self.duties.get(duty).copied().unwrap_or((1, 0));
        Member { live: self.live.max(1), able, before, ring_position: self.ring_position }
    }

    /// Returns when in a round this process polls, in parts of 2^16.
    pub fn ring_position(&self) -> u16 {
        self.ring_position
    }
}

/// One process among the live ones that could do a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    live: u32,
    able: u32,
    before: u32,
    ring_position: u16,
}

impl Member {
    /// Whether this process polls as soon as a lease could have expired.
    pub fn stands_by(self) -> bool {
        (self.before as usize) < STAND_BYS
    }

    /// Whether no other process could do the duty.
    pub fn is_alone(self) -> bool {
        self.able <= 1
    }

    /// Returns how often a process that does not stand by polls: all together once a second, whichever
    /// duties each of them could do.
    pub fn round(self) -> Duration {
        Duration::from_secs(u64::from(self.live))
    }

    /// Returns how long a process that does not stand by waits before its first poll, so that many
    /// processes that start at once do not poll at once.
    pub fn first_look_after(self) -> Duration {
        self.round() * u32::from(self.ring_position) / (u32::from(u16::MAX) + 1)
    }
}

#[cfg(test)]
mod tests;
