//! How many processes share the looking at leases that others hold. A few stand by and look whenever a lease could have
//! expired; all others look so rarely that together they ask once a second, however many they are.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::STAND_BYS;
use crate::names::DutyName;
use crate::worker::{WorkerCard, WorkerId};

/// A live worker, and the duties that it could do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub worker: WorkerId,
    /// What it could do.
    pub duties: Vec<DutyName>,
}

impl From<&WorkerCard> for Peer {
    fn from(card: &WorkerCard) -> Self {
        Self { worker: card.id, duties: card.duties.clone() }
    }
}

/// One process among those that live, for each of its duties. Only those that could do a duty share the looking at its lease:
/// if three stood by that cannot do it, nobody would take it over in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowds(BTreeMap<DutyName, Crowd>);

impl Crowds {
    /// This process and its duties among all live workers.
    pub fn of<'a>(me: WorkerId, duties: impl IntoIterator<Item = &'a DutyName>, peers: &[Peer]) -> Self {
        let crowd = |duty: &DutyName| {
            let able = peers.iter().filter(|peer| peer.duties.contains(duty)).map(|peer| peer.worker);
            Crowd::of(me, &able.collect::<Vec<_>>())
        };
        Self(duties.into_iter().map(|duty| (duty.clone(), crowd(duty))).collect())
    }

    /// Among those that could do one duty; alone if it was not named.
    pub fn of_duty(&self, duty: &DutyName) -> Crowd {
        self.0.get(duty).copied().unwrap_or(Crowd { live: 1, stands_by: true, seat: 0 })
    }
}

/// One process among those that live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    live: u32,
    stands_by: bool,
    /// Where in a round this process looks, in parts of 2^16.
    seat: u16,
}

impl Crowd {
    /// This process among all live workers, itself counted whether or not it is listed.
    pub fn of(me: WorkerId, live: &[WorkerId]) -> Self {
        let mine = place_of(me);
        let others = || live.iter().filter(|worker| **worker != me);
        let before = others().filter(|worker| (place_of(**worker), **worker) < (mine, me)).count();
        let count = u32::try_from(others().count()).unwrap_or(u32::MAX).saturating_add(1);
        Self { live: count, stands_by: before < STAND_BYS, seat: (mine >> 48) as u16 }
    }

    /// Whether this process looks as soon as a lease could have expired.
    pub fn stands_by(self) -> bool {
        self.stands_by
    }

    /// How often one that does not stand by looks: all together once a second.
    pub fn round(self) -> Duration {
        Duration::from_secs(u64::from(self.live))
    }

    /// How long one that does not stand by waits before its first look, so that many that start at once do not look at
    /// once.
    pub fn first_look_after(self) -> Duration {
        self.round() * u32::from(self.seat) / (u32::from(u16::MAX) + 1)
    }
}

/// Where a worker stands in the row of all, the same for every process and every build (FNV-1a, then mixed once more, since
/// its high bits alone hardly depend on the last bytes).
fn place_of(worker: WorkerId) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let folded =
        worker.to_bytes().iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    (folded ^ (folded >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: u128) -> Vec<WorkerId> {
        (0..count)
            .map(|n| WorkerId::from_random(n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)))
            .collect()
    }

    #[test]
    fn of_a_thousand_the_same_three_stand_by_whoever_asks() {
        let live = workers(1_000);
        let standing: Vec<_> = live.iter().filter(|me| Crowd::of(**me, &live).stands_by()).collect();
        assert_eq!(standing.len(), STAND_BYS);
        let reversed: Vec<_> = live.iter().rev().copied().collect();
        assert!(standing.iter().all(|me| Crowd::of(**me, &reversed).stands_by()));
    }

    #[test]
    fn when_one_that_stood_by_is_gone_another_takes_its_place() {
        let live = workers(10);
        let gone = *live.iter().find(|me| Crowd::of(**me, &live).stands_by()).unwrap();
        let left: Vec<_> = live.iter().copied().filter(|worker| *worker != gone).collect();
        assert_eq!(left.iter().filter(|me| Crowd::of(**me, &left).stands_by()).count(), STAND_BYS);
    }

    #[test]
    fn for_each_duty_some_stand_by_who_can_do_it() {
        let (prune, report) = (DutyName::parse("prune").unwrap(), DutyName::parse("report").unwrap());
        let can =
            |index: usize| if index < 50 { vec![prune.clone()] } else { vec![prune.clone(), report.clone()] };
        let all = workers(60).into_iter().enumerate();
        let peers: Vec<_> = all.map(|(index, worker)| Peer { worker, duties: can(index) }).collect();
        let stand_by = |duty: &DutyName| {
            let able = peers.iter().filter(|peer| peer.duties.contains(duty));
            able.filter(|peer| Crowds::of(peer.worker, &peer.duties, &peers).of_duty(duty).stands_by())
                .count()
        };
        assert_eq!((stand_by(&prune), stand_by(&report)), (STAND_BYS, STAND_BYS));
    }

    #[test]
    fn one_that_sees_nobody_else_stands_by() {
        assert!(Crowd::of(WorkerId::from_random(7), &[]).stands_by());
    }

    #[test]
    fn all_that_do_not_stand_by_look_at_most_once_a_second_together() {
        for count in [4_u32, 50, 1_000] {
            let live = workers(count.into());
            let crowds: Vec<_> = live.iter().map(|me| Crowd::of(*me, &live)).collect();
            let others = crowds.iter().filter(|crowd| !crowd.stands_by());
            let a_second: f64 = others.map(|crowd| 1.0 / crowd.round().as_secs_f64()).sum();
            assert!(a_second <= 1.0, "{count} workers ask {a_second} times a second");
        }
    }

    #[test]
    fn the_first_looks_of_many_are_spread_over_a_round() {
        let live = workers(1_000);
        let mut late = 0;
        for me in &live {
            let crowd = Crowd::of(*me, &live);
            assert!(crowd.first_look_after() < crowd.round());
            late += u32::from(crowd.first_look_after() * 2 > crowd.round());
        }
        assert!((350..650).contains(&late), "{late} of 1,000 look in the second half");
    }
}
