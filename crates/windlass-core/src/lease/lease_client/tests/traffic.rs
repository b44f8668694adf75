//! How often a thousand processes call the store, counted on a virtual clock: in normal operation, when a
//! lease is released, when holders die one after another, and while the store hangs.

use std::collections::BTreeMap;

use super::*;
use crate::clock::Timestamp;
use crate::lease::membership::{RingPoint, is_live};
use crate::lease::{LeaseRequest, StoredLease};
use crate::limits::{HEARTBEAT_EVERY, WORKER_LEASE};

const TICK: Duration = Duration::from_millis(50);

struct Process {
    worker: WorkerId,
    lease_client: LeaseClient,
    beats_at: Moment,
    beat: Moment,
    is_dead: bool,
}

/// Counts the members. All of these processes could do every duty, so that each is counted once and not
/// for each duty.
fn membership(me: WorkerId, duties: &[DutyName], heard: &[RingPoint]) -> Membership {
    let able = heard.len() as u32;
    let before = heard.iter().filter(|place| **place < RingPoint::of(me)).count() as u32;
    let count = |duty: &DutyName| DutyCount { duty: duty.clone(), able, before };
    Membership::new(me, MemberCount { live: able, duties: duties.iter().map(count).collect() })
}

struct World {
    now: Moment,
    duties: Vec<DutyName>,
    processes: Vec<Process>,
    leases: BTreeMap<DutyName, StoredLease>,
    /// No answer comes, and nothing is applied.
    hangs: bool,
    calls: u32,
    requests: u128,
}

impl World {
    /// Creates a world in which all processes have started and know of each other.
    fn new(processes: u128, duties: Vec<DutyName>) -> Self {
        let worker = |bits: u128| {
            WorkerId::from_random((bits + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
        };
        let workers: Vec<_> = (0..processes).map(worker).collect();
        let places: Vec<_> = workers.iter().map(|worker| RingPoint::of(*worker)).collect();
        let process = |(index, worker): (usize, &WorkerId)| Process {
            worker: *worker,
            lease_client: LeaseClient::new(
                duties.clone(),
                LeaseTiming::default(),
                membership(*worker, &duties, &places),
                Moment::ZERO,
            ),
            beats_at: HEARTBEAT_EVERY * index as u32 / places.len() as u32,
            beat: Moment::ZERO,
            is_dead: false,
        };
        let processes = workers.iter().enumerate().map(process).collect();
        Self {
            now: Moment::ZERO,
            duties: duties.clone(),
            processes,
            leases: BTreeMap::new(),
            hangs: false,
            calls: 0,
            requests: 0,
        }
    }

    fn store_now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(SECOND * 1_000_000 + self.now)
    }

    fn tick(&mut self) {
        self.now += TICK;
        let now = self.now;
        for index in 0..self.processes.len() {
            if self.processes[index].is_dead {
                continue;
            }
            if self.processes[index].beats_at <= now && !self.hangs {
                self.beat(index);
            }
            while self.processes[index].lease_client.wake_at() <= now {
                self.requests += 1;
                let effects = self.processes[index].lease_client.effects(now, id(self.requests));
                self.act(index, effects);
            }
        }
    }

    /// Sends a heartbeat, whose answer has the count of the live processes.
    fn beat(&mut self, index: usize) {
        let now = self.now;
        let process = &mut self.processes[index];
        (process.beat, process.beats_at) = (now, now + HEARTBEAT_EVERY);
        let heard = self.processes.iter().filter(|process| is_live(now - process.beat, WORKER_LEASE));
        let heard: Vec<_> = heard.map(|process| RingPoint::of(process.worker)).collect();
        let membership = membership(self.processes[index].worker, &self.duties, &heard);
        self.processes[index].lease_client.saw(membership, now);
    }

    fn act(&mut self, index: usize, effects: Vec<LeaseEffect>) {
        for effect in effects {
            let then = match effect {
                LeaseEffect::Try { call, id, duties } => {
                    self.calls += 1;
                    if self.hangs {
                        continue;
                    }
                    let answers = self.take(index, id, duties);
                    self.processes[index].lease_client.tried(call, Ok(answers), self.now)
                }
                LeaseEffect::Renew { call, renewals } => {
                    self.calls += 1;
                    if self.hangs {
                        continue;
                    }
                    let answers = renewals.into_iter().map(|renewal| self.renew(renewal)).collect();
                    self.processes[index].lease_client.renewed(call, Ok(answers), self.now)
                }
                LeaseEffect::Release(releases) => {
                    self.calls += 1;
                    releases.iter().for_each(|release| self.release(release));
                    Vec::new()
                }
                _ => Vec::new(),
            };
            self.act(index, then);
        }
    }

    fn take(&mut self, index: usize, id: TermId, duties: Vec<(DutyName, Duration)>) -> Vec<Taking> {
        let request = LeaseRequest { worker: self.processes[index].worker, id, duties };
        let now = self.store_now();
        let take = |(duty, expiry): &(DutyName, Duration)| {
            let (taking, after) = StoredLease::take(self.leases.get(duty), duty, *expiry, &request, now);
            after.into_iter().for_each(|lease| drop(self.leases.insert(duty.clone(), lease)));
            taking
        };
        request.duties.iter().map(take).collect()
    }

    fn renew(&mut self, renewal: Renewal) -> (LeaseFence, Renewed) {
        let now = self.store_now();
        let (renewed, after) = StoredLease::renew(self.leases.get(&renewal.lease.duty), &renewal, now);
        after.into_iter().for_each(|lease| drop(self.leases.insert(lease.duty.clone(), lease)));
        (renewal.lease, renewed)
    }

    fn release(&mut self, release: &LeaseRelease) {
        let (_, after) = StoredLease::release(self.leases.get(&release.duty), release);
        after.into_iter().for_each(|lease| drop(self.leases.insert(lease.duty.clone(), lease)));
        let now = self.now;
        let live = self.processes.iter_mut().filter(|process| !process.is_dead);
        live.for_each(|process| process.lease_client.hinted(&release.duty, now));
    }

    /// Returns the calls a second.
    fn pace(&mut self, span: Duration) -> f64 {
        let (before, end) = (self.calls, self.now + span);
        while self.now < end {
            self.tick();
        }
        f64::from(self.calls - before) / span.as_secs_f64()
    }

    fn leader(&self) -> Option<usize> {
        let leads = |process: &Process| {
            !process.is_dead && process.lease_client.term(&self.duties[0], self.now).is_some()
        };
        self.processes.iter().position(leads)
    }

    /// Returns the time until a process leads.
    fn until_led(&mut self) -> Duration {
        let since = self.now;
        while self.leader().is_none() && self.now - since < SECOND * 60 {
            self.tick();
        }
        self.now - since
    }
}

#[test]
fn a_thousand_processes_ask_at_most_five_times_a_second_in_peace_and_after_a_release() {
    let user: Vec<_> = (0..20).map(|number| duty(&format!("user-{number}"))).collect();
    for duties in [vec![rescue()], user] {
        let mut world = World::new(1_000, duties);
        world.until_led();
        let peace = world.pace(SECOND * 60);
        assert!(peace <= 5.0, "{peace} calls a second with {} duties", world.duties.len());
        let leader = world.leader().unwrap();
        let (first, now) = (world.duties[0].clone(), world.now);
        let effects = world.processes[leader].lease_client.give_way(&first, None, now);
        world.act(leader, effects);
        assert!(world.until_led() < SECOND / 5, "a release wakes the standbys");
        let after = world.pace(SECOND * 60);
        assert!(after <= 5.0, "{after} calls a second after a release");
    }
}

#[test]
fn leaders_that_die_one_after_another_are_each_followed_within_an_expiry_and_a_second() {
    for processes in [6, 1_000] {
        let mut world = World::new(processes, vec![rescue()]);
        for round in 0..5 {
            world.until_led();
            let leader = world.leader().unwrap();
            world.processes[leader].is_dead = true;
            let took = world.until_led();
            assert!(took <= DUTY_EXPIRY + SECOND, "{processes} processes, round {round}: {took:?}");
        }
        let after = world.pace(SECOND * 60);
        assert!(after <= 5.0, "{after} calls a second after five deaths");
    }
}

#[test]
fn a_thousand_processes_ask_a_store_that_hangs_for_a_quarter_of_an_hour_at_most_ten_times_a_second() {
    let mut world = World::new(1_000, vec![rescue()]);
    world.until_led();
    world.hangs = true;
    for minute in 0..15 {
        let pace = world.pace(SECOND * 60);
        assert!(pace <= 10.0, "minute {minute}: {pace} calls a second");
    }
    world.hangs = false;
    assert!(world.until_led() <= DUTY_EXPIRY * 2, "and then a process leads");
}
