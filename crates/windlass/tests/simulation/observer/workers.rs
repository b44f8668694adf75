//! The workers: which of them live, leave and die.

use std::collections::BTreeSet;

use windlass_core::engine::Rescued;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::worker::{Liveness, WorkerId};

use super::{Lease, Moment, Observer, is_running_by};
use crate::plan::LEASE;

impl Lease {
    /// Whether the worker sends heartbeats whenever it can. A worker without a heartbeat may have been
    /// registered without its knowledge, since the answer was lost.
    fn lives(&self) -> bool {
        self.beats > 0 && !self.struck
    }
}

impl Observer {
    pub(super) fn saw_registration(&mut self, worker: WorkerId, at: &Moment<'_>) {
        let (last_heartbeat, unwritable) = (at.now, at.unwritable);
        let lease =
            Lease { last_heartbeat, unwritable, beats: 0, struck: false, dead: false, retired: false };
        self.workers.insert(worker, lease);
    }

    pub(super) fn saw_heartbeat(&mut self, worker: WorkerId, beat: &Liveness, at: &Moment<'_>) {
        let Some(lease) = self.workers.get_mut(&worker) else { return };
        if let Liveness::Alive { .. } = beat {
            let gone = lease.dead || lease.retired;
            (lease.last_heartbeat, lease.unwritable) = (at.now, at.unwritable);
            lease.beats += 1;
            if gone {
                self.broke(
                    "dead revived",
                    format!("{worker} had left or was declared dead, and is answered as alive"),
                );
            }
        }
    }

    pub(super) fn saw_retire(&mut self, worker: WorkerId, at: &Moment<'_>) {
        if let Some(lease) = self.workers.get_mut(&worker).filter(|lease| !lease.dead) {
            lease.retired = true;
        }
        let held: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, seen)| seen.holder.is_some_and(|(_, by)| by == worker))
            .map(|(id, _)| *id)
            .collect();
        let released: Vec<_> = held.into_iter().filter(|id| !is_running_by(at.store, *id, worker)).collect();
        if self.clean_leavers.contains(&worker) && !released.is_empty() {
            self.broke("left behind", format!("{worker} ended cleanly, and left jobs {released:?} behind"));
        }
        for id in released {
            self.release(id, at);
        }
    }

    pub(super) fn saw_rescue(&mut self, rescued: &Rescued, at: &Moment<'_>) {
        self.see_the_dead(at);
        for id in rescued.returned.iter().chain(&rescued.buried) {
            let Some((_, worker)) = self.jobs.get(id).and_then(|seen| seen.holder) else {
                self.broke("rescued unheld", format!("job {id}"));
                continue;
            };
            if self.workers.get(&worker).is_none_or(|lease| !lease.dead) {
                self.broke("taken from a live worker", format!("job {id} of {worker}"));
            }
            let seen = self.jobs.get_mut(id).expect("the job was found above");
            seen.crashes += 1;
            let crashes = seen.crashes;
            self.release(*id, at);
            if crashes > CRASHES_MAX {
                self.broke("over limits", format!("job {id} was rescued {crashes} times"));
            }
        }
    }

    /// Finds the workers that the store no longer lists. They were declared dead, and must have sent no
    /// heartbeat for a lease of real time.
    fn see_the_dead(&mut self, at: &Moment<'_>) {
        let listed: BTreeSet<_> = at.store.workers().into_iter().map(|sighting| sighting.card.id).collect();
        let (mut hasty, mut unheard) = (Vec::new(), Vec::new());
        for (id, lease) in &mut self.workers {
            if !lease.dead && !lease.retired && !listed.contains(id) {
                lease.dead = true;
                let silent = at.now - lease.last_heartbeat;
                if silent < LEASE {
                    hasty.push(*id);
                } else if lease.lives() && silent - (at.unwritable - lease.unwritable) < LEASE {
                    unheard.push(*id);
                }
            }
        }
        for id in hasty {
            self.broke("declared dead in life", format!("{id} had sent a heartbeat within its lease"));
        }
        for id in unheard {
            self.broke("declared dead unheard", format!("{id} was alive, and could store no heartbeat"));
        }
    }
}
