//! Rescue: declares silent workers dead, for ever, and takes their jobs back.

use std::time::Duration;

use windlass_core::admin::AttemptEnding;
use windlass_core::clock::Timestamp;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::MAINTENANCE_BATCH_MAX;
use windlass_core::planted::{Bug, planted};
use windlass_core::settle::{NewState, Transition, after_crash, crash_error};
use windlass_core::worker::WorkerId;

use super::state::{EndedAttempt, State};

/// A worker that was declared dead, and the jobs that it held then.
#[derive(Debug)]
pub(super) struct Death {
    worker: WorkerId,
    held: Vec<JobId>,
}

impl State {
    pub(super) fn rescue(&mut self, request: &RescueRequest, now: Timestamp) -> Rescued {
        for suspicion in &request.silent {
            self.declare_dead(suspicion, now);
        }
        let limit = request.limit.min(MAINTENANCE_BATCH_MAX) as usize;
        let mut rescued = Rescued::default();
        while rescued.returned.len() + rescued.buried.len() < limit {
            let Some((id, beside)) = self.next_orphan() else { break };
            self.take_back(id, &beside, request.crashes_max, &mut rescued, now);
        }
        if planted(Bug::RescueByAge) {
            self.take_back_the_old(request.crashes_max, &mut rescued, now);
        }
        rescued.more = self.next_orphan().is_some();
        rescued
    }

    /// Declares a worker dead, only if it has sent no heartbeat since it was read, and its lease has
    /// expired by this clock too.
    fn declare_dead(&mut self, suspicion: &Suspicion, now: Timestamp) {
        let Some(row) = self.workers.get_mut(&suspicion.worker) else { return };
        if row.declared_dead || row.beats != suspicion.beats || !row.has_expired(now) {
            return;
        }
        row.declared_dead = true;
        let held = self.index.held_by(suspicion.worker).collect();
        self.deaths.push_back(Death { worker: suspicion.worker, held });
    }

    /// Returns the next job of a dead worker, and the others that it held when it died.
    fn next_orphan(&mut self) -> Option<(JobId, Vec<JobId>)> {
        while let Some(death) = self.deaths.front() {
            if let Some(id) = self.index.held_by(death.worker).next() {
                let beside = death.held.iter().copied().filter(|other| *other != id).collect();
                return Some((id, beside));
            }
            self.index.forget_worker(death.worker);
            self.deaths.pop_front();
        }
        None
    }

    fn take_back(
        &mut self,
        id: JobId,
        beside: &[JobId],
        crashes_max: u32,
        rescued: &mut Rescued,
        now: Timestamp,
    ) {
        let Some(row) = self.live.get_mut(&id) else { return };
        let cancel = row.claim().and_then(|claim| claim.cancel_requested.clone());
        let ending = AttemptEnding::Crashed;
        let error = Some(crash_error());
        row.note_attempt(EndedAttempt { started_at: None, ended_at: now, ending, error, output: None });
        row.last_error = Some(crash_error());
        let (due, counters) = (row.job.due, row.job.counters);
        let mut applied = after_crash(counters, due, crashes_max, beside).or_cancelled(cancel.as_deref());
        if planted(Bug::CrashNotCounted) {
            applied = Transition::Release { started: true }.apply(now, due, counters, cancel.as_deref());
        }
        match applied.state {
            NewState::Dead { .. } => rescued.buried.push(id),
            _ => rescued.returned.push(id),
        }
        self.apply(id, applied, now, now);
    }

    /// Rescues by the age of a claim: the bug that rescue by lease avoids.
    fn take_back_the_old(&mut self, crashes_max: u32, rescued: &mut Rescued, now: Timestamp) {
        const OLD: Duration = Duration::from_secs(60);
        let rows =
            self.live.values().filter(|row| row.claim().is_some_and(|claim| now.since(claim.since) > OLD));
        let old: Vec<_> = rows.map(|row| row.job.id).collect();
        old.into_iter().for_each(|id| self.take_back(id, &[], crashes_max, rescued, now));
    }
}
