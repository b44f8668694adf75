//! The state of all duties of one process, without any I/O: events and the time go in, effects come out. It
//! joins the [lease client](windlass_core::lease::lease_client) for all leases of the process, the
//! [locks](super::locks) of its session, and a [runner](windlass_core::duty::runner) for each duty, and
//! keeps the notes of their runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use windlass_core::clock::Timestamp;
use windlass_core::duty::runner::{DutyEffect, DutyRunner, RunId};
use windlass_core::duty::{DutyMode, DutySpec};
use windlass_core::error::EngineError;
use windlass_core::lease::lease_client::{LeaseCall, LeaseClient, LeaseEffect, LeaseTiming};
use windlass_core::lease::membership::{MemberCount, Membership};
use windlass_core::lease::{
    DutyNotes, LeaseFence, LeaseMetadata, LeaseRelease, LeaseRequest, LockRequest, Renewal, Renewed, Taking,
    TermId,
};
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use super::alert::DutyAlert;
use super::locks::{LockCall, LockEffect, Locks};
use crate::worker::Moment;

/// An event that the shell reports to a duty status.
#[derive(Debug)]
pub enum DutyStatusEvent {
    /// The store answered a heartbeat.
    HeartbeatAnswer {
        /// The identity that sent the heartbeat.
        worker: WorkerId,
        /// The number of live members.
        members: MemberCount,
        /// The store's clock.
        store_now: Timestamp,
    },
    /// A request for leases was answered, or failed.
    Taken(LeaseCall, Result<Vec<Taking>, EngineError>),
    /// Renewals were answered, or failed.
    Renewed(LeaseCall, Result<Vec<(LeaseFence, Renewed)>, EngineError>),
    /// A request for locks was answered, or failed.
    Locked(LockCall, Result<Vec<bool>, EngineError>),
    /// A run has ended, whatever its result.
    Ended(DutyName, RunId, RunReport),
    /// The interim report of a run that has not ended. It is noted with the lease.
    UnderWay(DutyName, RunId, RunReport),
    /// The lease of a duty became free, or its holder was asked to give way.
    Hint(DutyName),
    /// The store changed, and perhaps a lease with it.
    HintOfAnything,
    /// The process ends: no run begins any more, and all leases and locks are released.
    Stop,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// The number of items that it processed.
    pub items: u64,
    /// The error, if it failed.
    pub error: Option<String>,
    /// The values that the duty keeps from now on, if they have changed.
    pub kept: Option<Map<String, Value>>,
}

/// An action for the shell around a duty status.
#[derive(Debug, Clone, PartialEq)]
pub enum DutyStatusEffect {
    /// Request leases; answer by [`DutyStatusEvent::Taken`].
    Take(LeaseCall, LeaseRequest),
    /// Renew leases; answer by [`DutyStatusEvent::Renewed`].
    Renew(LeaseCall, Vec<Renewal>),
    /// Release leases; the answer is not awaited.
    Release(Vec<LeaseRelease>),
    /// Request locks; answer by [`DutyStatusEvent::Locked`].
    Lock(LockCall, LockRequest),
    /// Release locks; the answer is not awaited.
    Unlock(WorkerId, Vec<DutyName>),
    /// Begin a run; report its end by [`DutyStatusEvent::Ended`].
    Begin(Begin),
    /// Stop a run: the right to it is gone.
    StopRun(DutyName, RunId),
    /// Raise an alert on which a person should act.
    Alert(DutyAlert),
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Begin {
    /// The duty.
    pub duty: DutyName,
    /// The id of the run.
    pub run: RunId,
    /// The fence that the run's writes name; none in modes without a fence.
    pub fence: Option<LeaseFence>,
    /// The values that the duty keeps with its lease.
    pub kept: Map<String, Value>,
}

/// A duty as it is added to a duty status.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The specification of the duty.
    pub spec: DutySpec,
    /// Whether a process that starts runs it at once where others would spread their first runs.
    pub at_once: bool,
}

/// All duties of one process.
#[derive(Debug)]
pub struct DutyStatus {
    worker: WorkerId,
    lease_client: LeaseClient,
    locks: Locks,
    duties: BTreeMap<DutyName, DutyEntry>,
    live: u32,
    /// The store's time, and the local moment at which it was read.
    store_clock: (Timestamp, Moment),
    has_stopped: bool,
}

#[derive(Debug)]
struct DutyEntry {
    spec: DutySpec,
    runner: DutyRunner,
    notes: DutyNotes,
    kept: Map<String, Value>,
    began_at: Moment,
    /// The run in progress.
    current: Option<RunId>,
    /// The last interim report of that run.
    so_far: Option<RunReport>,
}

impl DutyStatus {
    /// Starts with these duties at `now`, among the members that were counted with this worker's first
    /// heartbeat.
    pub fn new(
        worker: WorkerId,
        entries: Vec<Entry>,
        timing: LeaseTiming,
        members: MemberCount,
        store_now: Timestamp,
        now: Moment,
    ) -> Self {
        let live = members.live.max(1);
        let membership = Membership::new(worker, members);
        let ring_position = membership.ring_position();
        let of_mode = |mode: DutyMode| {
            let named = entries.iter().filter(move |entry| entry.spec.mode == mode);
            named.map(|entry| entry.spec.name.clone()).collect::<Vec<_>>()
        };
        let lease_client = LeaseClient::new(of_mode(DutyMode::Lease), timing, membership, now);
        let locks = Locks::new(of_mode(DutyMode::AdvisoryLock), timing, ring_position, now);
        let named = |entry: Entry| {
            let ring_position = if entry.at_once { 0 } else { ring_position };
            (entry.spec.name.clone(), DutyEntry::new(entry.spec, ring_position, now))
        };
        let duties = entries.into_iter().map(named).collect();
        let mut duty_status = Self {
            worker,
            lease_client,
            locks,
            duties,
            live,
            store_clock: (store_now, now),
            has_stopped: false,
        };
        duty_status.look_around();
        duty_status
    }

    /// Takes in an event.
    pub fn on(&mut self, event: DutyStatusEvent, now: Moment) -> Vec<DutyStatusEffect> {
        let mut out = Vec::new();
        match event {
            DutyStatusEvent::HeartbeatAnswer { worker, members, store_now } => {
                if worker != self.worker {
                    self.give_all_back(now, &mut out);
                }
                self.heartbeat_answered(worker, members, store_now, now);
            }
            DutyStatusEvent::Taken(call, answer) => {
                let effects = self.lease_client.tried(call, answer, now);
                self.of_leases(effects, now, &mut out);
            }
            DutyStatusEvent::Renewed(call, answer) => {
                let effects = self.lease_client.renewed(call, answer, now);
                self.of_leases(effects, now, &mut out);
            }
            DutyStatusEvent::Locked(call, answer) => {
                let effects = self.locks.answered(call, answer.ok(), now);
                self.of_locks(effects, now, &mut out);
            }
            DutyStatusEvent::Ended(duty, run, report) => self.ended(&duty, run, report, now, &mut out),
            DutyStatusEvent::UnderWay(duty, run, report) => self.goes_on(&duty, run, report, now),
            DutyStatusEvent::Hint(duty) => self.lease_client.hinted(&duty, now),
            DutyStatusEvent::HintOfAnything => self.lease_client.hinted_of_anything(now),
            DutyStatusEvent::Stop => self.stop(now, &mut out),
        }
        out
    }

    /// The effects that are due at `now`. `fresh` is a random id that was never used.
    pub fn effects(&mut self, now: Moment, fresh: TermId) -> Vec<DutyStatusEffect> {
        let mut out = Vec::new();
        let effects = self.lease_client.effects(now, fresh);
        self.of_leases(effects, now, &mut out);
        let effects = self.locks.effects(self.worker, now);
        self.of_locks(effects, now, &mut out);
        let names: Vec<_> = self.duties.keys().cloned().collect();
        for duty in names {
            let effects = self.duties.get_mut(&duty).map(|entry| entry.runner.effects(now));
            for effect in effects.into_iter().flatten() {
                self.of_duty(&duty, effect, now, &mut out);
            }
        }
        out
    }

    /// When an effect is due even if no event comes.
    pub fn wake_at(&self) -> Moment {
        let runners = self.duties.values().map(|entry| entry.runner.wake_at()).min();
        self.lease_client.wake_at().min(self.locks.wake_at()).min(runners.unwrap_or(Moment::MAX))
    }

    /// Whether this process may do a duty at `now`.
    pub fn leads(&self, duty: &DutyName, now: Moment) -> bool {
        self.lease_client.term(duty, now).is_some() || self.locks.has(duty, now)
    }

    /// Whether this process takes a duty over as soon as its leader could be gone.
    pub fn stands_by(&self, duty: &DutyName) -> bool {
        self.lease_client.stands_by(duty)
    }

    /// The number of live workers that could do any duty, this worker included.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Whether an answer is pending that may grant a term. A process that stops should wait for it, if it
    /// comes soon.
    pub fn is_waiting(&self) -> bool {
        self.lease_client.is_waiting()
    }

    /// Whether a run has not ended.
    pub fn is_running(&self) -> bool {
        self.duties.values().any(|entry| entry.runner.is_running())
    }

    fn heartbeat_answered(
        &mut self,
        worker: WorkerId,
        members: MemberCount,
        store_now: Timestamp,
        now: Moment,
    ) {
        (self.worker, self.live, self.store_clock) = (worker, members.live.max(1), (store_now, now));
        self.lease_client.saw(Membership::new(worker, members), now);
        self.look_around();
    }

    /// Releases everything under the old identity. This process was declared dead and goes on under another
    /// identity, but its leases name the old identity, which is no longer among the workers. They are
    /// released while this process still knows that identity.
    fn give_all_back(&mut self, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        let led: Vec<_> = self.duties.keys().filter(|duty| self.leads(duty, now)).cloned().collect();
        for duty in led {
            self.give_way(&duty, now, out);
        }
    }

    /// Tells the runners whether this process is alone: leaders do not rotate where no other process could
    /// lead.
    fn look_around(&mut self) {
        for (duty, entry) in &mut self.duties {
            entry.runner.saw(self.lease_client.is_alone(duty));
        }
    }

    fn store_now(&self, now: Moment) -> Timestamp {
        let (then, at) = self.store_clock;
        then.plus(now.saturating_sub(at))
    }

    fn of_leases(&mut self, effects: Vec<LeaseEffect>, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        for effect in effects {
            match effect {
                LeaseEffect::Start { lease, metadata } => self.leads_now(lease, metadata.as_ref(), now),
                LeaseEffect::Stop(lease) => self.leads_no_longer(&lease.duty, now, out),
                LeaseEffect::GiveWay(lease) => self.give_way(&lease.duty, now, out),
                LeaseEffect::Renew { call, renewals } => out.push(DutyStatusEffect::Renew(call, renewals)),
                LeaseEffect::Try { call, id, duties } => {
                    let request = LeaseRequest { worker: self.worker, id, duties };
                    out.push(DutyStatusEffect::Take(call, request));
                }
                LeaseEffect::Release(releases) => out.push(DutyStatusEffect::Release(releases)),
                LeaseEffect::Blocked { duty, lasting } => {
                    out.push(DutyStatusEffect::Alert(DutyAlert::Blocked { duty, lasting }));
                }
                LeaseEffect::NoRoom { duty, lasting } => {
                    out.push(DutyStatusEffect::Alert(DutyAlert::NoRoom { duty, lasting }));
                }
            }
        }
    }

    fn of_locks(&mut self, effects: Vec<LockEffect>, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        for effect in effects {
            match effect {
                LockEffect::Ask(call, request) => out.push(DutyStatusEffect::Lock(call, request)),
                LockEffect::Gained(duty) => {
                    if let Some(entry) = self.duties.get_mut(&duty) {
                        entry.runner.gained(None, None, now);
                    }
                }
                LockEffect::Lost(duty) => self.leads_no_longer(&duty, now, out),
                LockEffect::Unlock(duties) => out.push(DutyStatusEffect::Unlock(self.worker, duties)),
            }
        }
    }

    fn of_duty(&mut self, duty: &DutyName, effect: DutyEffect, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        match effect {
            DutyEffect::Begin { run, fence } => self.begin(duty, run, fence, now, out),
            DutyEffect::Stop(run) => out.push(DutyStatusEffect::StopRun(duty.clone(), run)),
            DutyEffect::Stuck(lasting) => {
                let store_now = self.store_now(now);
                if let Some(entry) = self.duties.get_mut(duty) {
                    entry.notes.got_stuck(store_now);
                }
                out.push(DutyStatusEffect::Alert(DutyAlert::Stuck { duty: duty.clone(), lasting }));
            }
            DutyEffect::GiveWay => self.give_way(duty, now, out),
        }
    }

    fn leads_now(&mut self, lease: LeaseFence, metadata: Option<&LeaseMetadata>, now: Moment) {
        let store_now = self.store_now(now);
        let Some(entry) = self.duties.get_mut(&lease.duty) else { return };
        let due_in = metadata.and_then(|metadata| entry.take_over(metadata, store_now));
        let duty = lease.duty.clone();
        entry.runner.gained(Some(lease), due_in, now);
        // So that no other process takes a run of the last leader for one in progress.
        self.note(&duty, now);
    }

    /// Ends the leadership of a duty. A process whose run does not end requests no lease of that duty: it
    /// would only keep the lease from others.
    fn leads_no_longer(&mut self, duty: &DutyName, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        let Some(entry) = self.duties.get_mut(duty) else { return };
        if let Some(DutyEffect::Stop(run)) = entry.runner.lost() {
            out.push(DutyStatusEffect::StopRun(duty.clone(), run));
        }
        if entry.runner.is_running() {
            self.locks.want(duty, false, now);
            let effects = self.lease_client.want(duty, false, now);
            self.of_leases(effects, now, out);
        }
    }

    fn give_way(&mut self, duty: &DutyName, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        let metadata = self.duties.get(duty).and_then(DutyEntry::metadata);
        let effects = self.lease_client.give_way(duty, metadata, now);
        self.of_leases(effects, now, out);
        let effects = self.locks.give_way(duty, now);
        self.of_locks(effects, now, out);
    }

    fn begin(
        &mut self,
        duty: &DutyName,
        run: RunId,
        fence: Option<LeaseFence>,
        now: Moment,
        out: &mut Vec<DutyStatusEffect>,
    ) {
        let store_now = self.store_now(now);
        let Some(entry) = self.duties.get_mut(duty) else { return };
        (entry.began_at, entry.current, entry.so_far) = (now, Some(run), None);
        entry.notes.began(store_now);
        let kept = entry.kept.clone();
        out.push(DutyStatusEffect::Begin(Begin { duty: duty.clone(), run, fence, kept }));
        self.note(duty, now);
    }

    fn ended(
        &mut self,
        duty: &DutyName,
        run: RunId,
        report: RunReport,
        now: Moment,
        out: &mut Vec<DutyStatusEffect>,
    ) {
        let store_now = self.store_now(now);
        let Some(entry) = self.duties.get_mut(duty) else { return };
        entry.ended(run, report, store_now, now);
        self.note(duty, now);
        if !self.has_stopped {
            self.locks.want(duty, true, now);
            let effects = self.lease_client.want(duty, true, now);
            self.of_leases(effects, now, out);
        }
    }

    /// Notes the interim report of a run. Some runs last for minutes, in which they process one item after
    /// the other: their progress is noted before they end. The values that they mean to keep are not noted:
    /// a run that dies half way may have set a value before it did the work that the value stands for.
    fn goes_on(&mut self, duty: &DutyName, run: RunId, report: RunReport, now: Moment) {
        let report = RunReport { kept: None, ..report };
        let Some(entry) = self.duties.get_mut(duty) else { return };
        let is_news = entry.so_far.clone().unwrap_or_default() != report;
        if is_news && entry.current == Some(run) {
            entry.so_far = Some(report);
            self.note(duty, now);
        }
    }

    /// Passes the notes of a duty to its lease; they are sent with the next renewal.
    fn note(&mut self, duty: &DutyName, now: Moment) {
        if let Some(metadata) = self.duties.get(duty).and_then(DutyEntry::metadata) {
            self.lease_client.note(duty, metadata, now);
        }
    }

    fn stop(&mut self, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        self.has_stopped = true;
        let effects = self.lease_client.stop();
        self.of_leases(effects, now, out);
        let effects = self.locks.stop();
        self.of_locks(effects, now, out);
        for (duty, entry) in &mut self.duties {
            if let Some(DutyEffect::Stop(run)) = entry.runner.lost() {
                out.push(DutyStatusEffect::StopRun(duty.clone(), run));
            }
        }
    }
}

impl DutyEntry {
    fn new(spec: DutySpec, ring_position: u16, now: Moment) -> Self {
        let runner = DutyRunner::new(spec.clone(), ring_position, now);
        let mut entry = Self {
            spec,
            runner,
            notes: DutyNotes::default(),
            kept: Map::new(),
            began_at: now,
            current: None,
            so_far: None,
        };
        entry.note_timing();
        entry
    }

    /// Continues from the notes of the last leader, with this process's own interval for the duty. Returns
    /// in how long the next run is due, if that is known.
    fn take_over(&mut self, metadata: &LeaseMetadata, store_now: Timestamp) -> Option<Duration> {
        (self.notes, self.kept) = (metadata.notes(), metadata.kept());
        // The interim report of a run that began in an earlier term ended with that term.
        (self.current, self.so_far) = (None, None);
        self.note_timing();
        self.notes.taken_over(store_now)
    }

    fn note_timing(&mut self) {
        self.notes.every = Some(self.spec.interval);
        self.notes.stuck_after = Some(self.spec.stuck_after());
    }

    fn ended(&mut self, run: RunId, report: RunReport, store_now: Timestamp, now: Moment) {
        self.runner.ended(run, now);
        if self.current != Some(run) {
            return;
        }
        (self.current, self.so_far) = (None, None);
        let took: Duration = now.saturating_sub(self.began_at);
        let too_much = report.kept.and_then(|kept| self.keep(kept).err());
        match &report.error.or(too_much) {
            None => self.notes.ended(Ok(report.items), took, store_now),
            Some(error) => {
                self.notes.items = self.notes.items.saturating_add(report.items);
                self.notes.ended(Err(error), took, store_now);
            }
        }
    }

    /// Keeps the values of the duty, unless they are too large: then the duty keeps its earlier values, and
    /// its run has failed. If they were accepted all the same, no lease could carry them, nor the notes
    /// beside them, and a duty without new notes looks stuck.
    fn keep(&mut self, kept: Map<String, Value>) -> Result<(), String> {
        LeaseMetadata::of(&self.notes, &kept).map_err(|error| error.to_string())?;
        self.kept = kept;
        Ok(())
    }

    /// The metadata for the lease. A run in progress is noted with its interim report, as a run that has
    /// not ended: the next leader does it again.
    fn metadata(&self) -> Option<LeaseMetadata> {
        let Some(so_far) = &self.so_far else { return LeaseMetadata::of(&self.notes, &self.kept).ok() };
        let mut notes = self.notes.clone();
        notes.goes_on(so_far.items, so_far.error.as_deref());
        LeaseMetadata::of(&notes, &self.kept).ok()
    }
}

#[cfg(test)]
mod tests;
