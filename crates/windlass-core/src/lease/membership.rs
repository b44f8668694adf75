//! How many processes share the looking at leases that others hold. A few stand by and look whenever a lease could have
//! expired; all others look so rarely that together they ask once a second, however many they are.
//!
//! A store counts them where it takes a worker's heartbeat, so that nobody must read a list of all workers. Who has fallen silent
//! does not count, long before its worker lease has run out: else the dead would stand by.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::STAND_BYS;
use crate::names::DutyName;
use crate::worker::WorkerId;

/// Places are below this: a number that is kept as floating point is still exact.
const PLACE_BITS: u32 = 53;

/// Where one that counts itself alone sits: in the middle.
const RING_POSITION_ALONE: u16 = 1 << 15;

/// Where a worker stands in the row of all, the same for every process and every build (FNV-1a, then mixed once more, since
/// its high bits alone hardly depend on the last bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    /// Of this worker.
    pub fn of(worker: WorkerId) -> Self {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let folded =
            worker.to_bytes().iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        Self((folded ^ (folded >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PLACE_BITS))
    }

    /// As a store keeps it: from 0 to 2^53.
    pub fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }

    fn ring_position(self) -> u16 {
        (self.0 >> (PLACE_BITS - u16::BITS)) as u16
    }
}

/// Whether one whose last heartbeat was so long ago counts among those that could do a duty: it missed one beat at most, of the
/// three in its worker lease.
pub fn is_live(silent_for: Duration, worker_lease: Duration) -> bool {
    silent_for <= worker_lease / 2
}

/// A live worker, and the duties that it could do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub worker: WorkerId,
    /// What it could do.
    pub duties: Vec<DutyName>,
}

/// What a store counts of the workers that it hears, the one that asks included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberCount {
    /// Those that could do any duty.
    pub live: u32,
    /// For each duty of the one that asks.
    pub duties: Vec<DutyCount>,
}

/// How many could do one duty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DutyCount {
    /// Which.
    pub duty: DutyName,
    /// Those that could do it.
    pub able: u32,
    /// Those of them whose place is lower than that of the one that asks.
    pub before: u32,
}

impl MemberCount {
    /// Counts for one worker. Engines that count themselves are compared with this.
    pub fn of<'a>(me: WorkerId, duties: impl IntoIterator<Item = &'a DutyName>, heard: &[Peer]) -> Self {
        let mine = Place::of(me);
        let others = || heard.iter().filter(|peer| peer.worker != me && !peer.duties.is_empty());
        let count = |duty: &DutyName| {
            let able = || others().filter(|peer| peer.duties.contains(duty));
            let before = able().filter(|peer| Place::of(peer.worker) < mine).count();
            DutyCount { duty: duty.clone(), able: with_me(able().count()), before: as_u32(before) }
        };
        Self { live: with_me(others().count()), duties: duties.into_iter().map(count).collect() }
    }
}

/// Others that are heard and could do the same duties, as a store counts them: by their sets of duties, of which there are few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Others {
    /// What each of them could do; at least one duty.
    pub duties: Vec<DutyName>,
    /// How many they are.
    pub able: u32,
    /// Those of them whose place is lower than that of the one that asks.
    pub before: u32,
}

impl MemberCount {
    /// Counts for one worker that could do these duties, the others being counted already.
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

/// One process among those that live, for each of its duties. Only those that could do a duty stand by for it: if three stood by that
/// cannot do it, nobody would take it over in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    live: u32,
    ring_position: u16,
    duties: BTreeMap<DutyName, (u32, u32)>,
}

impl Membership {
    /// As long as nothing is known of others.
    pub fn alone() -> Self {
        Self { live: 1, ring_position: RING_POSITION_ALONE, duties: BTreeMap::new() }
    }

    /// As a store counted.
    pub fn new(me: WorkerId, count: MemberCount) -> Self {
        let of_duty = |count: DutyCount| (count.duty, (count.able, count.before));
        Self {
            live: count.live,
            ring_position: Place::of(me).ring_position(),
            duties: count.duties.into_iter().map(of_duty).collect(),
        }
    }

    /// This process and its duties among all workers that are heard.
    pub fn of<'a>(me: WorkerId, duties: impl IntoIterator<Item = &'a DutyName>, heard: &[Peer]) -> Self {
        Self::new(me, MemberCount::of(me, duties, heard))
    }

    /// Among those that could do one duty; alone if it was not named.
    pub fn of_duty(&self, duty: &DutyName) -> Member {
        let (able, before) = self.duties.get(duty).copied().unwrap_or((1, 0));
        Member { live: self.live.max(1), able, before, ring_position: self.ring_position }
    }

    /// Where in a round this process looks, in parts of 2^16.
    pub fn ring_position(&self) -> u16 {
        self.ring_position
    }
}

/// One process among those that live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    live: u32,
    able: u32,
    before: u32,
    ring_position: u16,
}

impl Member {
    /// Whether this process looks as soon as a lease could have expired.
    pub fn stands_by(self) -> bool {
        (self.before as usize) < STAND_BYS
    }

    /// Whether nobody else could do the duty.
    pub fn is_alone(self) -> bool {
        self.able <= 1
    }

    /// How often one that does not stand by looks: all together once a second, whichever duties each of them could do.
    pub fn round(self) -> Duration {
        Duration::from_secs(u64::from(self.live))
    }

    /// How long one that does not stand by waits before its first look, so that many that start at once do not look at
    /// once.
    pub fn first_look_after(self) -> Duration {
        self.round() * u32::from(self.ring_position) / (u32::from(u16::MAX) + 1)
    }
}

#[cfg(test)]
mod tests;
