//! What one process does about all its duties, without any I/O: events and the time go in, effects come out. It joins the
//! [keeper](windlass_core::lease::lease_client) of all leases of the process, the [locks](super::locks) of its session, and a
//! [runner](windlass_core::duty::runner) for each duty, and keeps the notes of their runs.

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

/// What happens to a board.
#[derive(Debug)]
pub enum DutyStatusEvent {
    /// The store answered a heartbeat.
    HeartbeatAnswer {
        /// Under which identity.
        worker: WorkerId,
        /// Who else is heard.
        members: MemberCount,
        /// The store's clock.
        store_now: Timestamp,
    },
    /// A request for leases was answered, or not.
    Taken(LeaseCall, Result<Vec<Taking>, EngineError>),
    /// Renewals were answered, or not.
    Renewed(LeaseCall, Result<Vec<(LeaseFence, Renewed)>, EngineError>),
    /// A request for locks was answered, or not.
    Locked(LockCall, Result<Vec<bool>, EngineError>),
    /// A run is over, whatever became of it.
    Ended(DutyName, RunId, RunReport),
    /// What a run has done so far that has not ended. It is noted with the lease.
    UnderWay(DutyName, RunId, RunReport),
    /// The lease of a duty became free, or its holder was asked to give way.
    Hint(DutyName),
    /// Something changed in the store, perhaps a lease.
    HintOfAnything,
    /// This process ends: nothing is begun any more, and everything is given back.
    Stop,
}

/// What became of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// What it did.
    pub items: u64,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What the duty keeps from now on, if that has changed.
    pub kept: Option<Map<String, Value>>,
}

/// What the shell around a board is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum DutyStatusEffect {
    /// Ask for leases; answer by [`DutyStatusEvent::Taken`].
    Take(LeaseCall, LeaseRequest),
    /// Renew leases; answer by [`DutyStatusEvent::Renewed`].
    Renew(LeaseCall, Vec<Renewal>),
    /// Give leases back; nobody waits for the answer.
    Release(Vec<LeaseRelease>),
    /// Ask for locks; answer by [`DutyStatusEvent::Locked`].
    Lock(LockCall, LockRequest),
    /// Give locks back; nobody waits for the answer.
    Unlock(WorkerId, Vec<DutyName>),
    /// Begin a run; say by [`DutyStatusEvent::Ended`] that it is over.
    Begin(Begin),
    /// Stop a run: the right to it is gone.
    StopRun(DutyName, RunId),
    /// Somebody should look at this.
    Alert(DutyAlert),
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Begin {
    /// Of which duty.
    pub duty: DutyName,
    /// Which.
    pub run: RunId,
    /// What its writes name; nothing in modes without one.
    pub fence: Option<LeaseFence>,
    /// What the duty keeps with its lease.
    pub kept: Map<String, Value>,
}

/// A duty as it is put on a board.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is.
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
    /// The store's clock, and when that was.
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
    /// The run that is under way.
    current: Option<RunId>,
    /// What that has done so far, as far as was told.
    so_far: Option<RunReport>,
}

impl DutyStatus {
    /// These duties from `now` on, in the crowd that was counted with this worker's first heartbeat.
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
        let on_board = |entry: Entry| {
            let ring_position = if entry.at_once { 0 } else { ring_position };
            (entry.spec.name.clone(), DutyEntry::new(entry.spec, ring_position, now))
        };
        let duties = entries.into_iter().map(on_board).collect();
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

    /// Something happened.
    pub fn on(&mut self, event: DutyStatusEvent, now: Moment) -> Vec<DutyStatusEffect> {
        let mut out = Vec::new();
        match event {
            DutyStatusEvent::HeartbeatAnswer { worker, members, store_now } => {
                if worker != self.worker {
                    self.give_all_back(now, &mut out);
                }
                self.heard(worker, members, store_now, now);
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

    /// What is to be done at `now`. `fresh` is a random id that was never used.
    pub fn effects(&mut self, now: Moment, fresh: TermId) -> Vec<DutyStatusEffect> {
        let mut out = Vec::new();
        let effects = self.lease_client.effects(now, fresh);
        self.of_leases(effects, now, &mut out);
        let effects = self.locks.effects(self.worker, now);
        self.of_locks(effects, now, &mut out);
        let names: Vec<_> = self.duties.keys().cloned().collect();
        for duty in names {
            let effects = self.duties.get_mut(&duty).map(|on_board| on_board.runner.effects(now));
            for effect in effects.into_iter().flatten() {
                self.of_duty(&duty, effect, now, &mut out);
            }
        }
        out
    }

    /// When something is due even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        let runners = self.duties.values().map(|on_board| on_board.runner.wake_at()).min();
        self.lease_client.wake_at().min(self.locks.wake_at()).min(runners.unwrap_or(Moment::MAX))
    }

    /// The term in which this process may do a duty at `now`.
    pub fn leads(&self, duty: &DutyName, now: Moment) -> bool {
        self.lease_client.term(duty, now).is_some() || self.locks.has(duty, now)
    }

    /// Whether this process takes a duty over as soon as its leader could be gone.
    pub fn stands_by(&self, duty: &DutyName) -> bool {
        self.lease_client.stands_by(duty)
    }

    /// How many workers are heard that could do any duty, this one included.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Whether an answer is under way that may tell of a term. Who stops should hear it, if it comes soon.
    pub fn is_waiting(&self) -> bool {
        self.lease_client.is_waiting()
    }

    /// Whether a run has not ended.
    pub fn is_running(&self) -> bool {
        self.duties.values().any(|on_board| on_board.runner.is_running())
    }

    fn heard(&mut self, worker: WorkerId, members: MemberCount, store_now: Timestamp, now: Moment) {
        (self.worker, self.live, self.store_clock) = (worker, members.live.max(1), (store_now, now));
        self.lease_client.saw(Membership::new(worker, members), now);
        self.look_around();
    }

    /// This process was declared dead and goes on under another identity: what it leads stands under the old one, which nobody finds
    /// among the workers. It is given back while that identity is still known here.
    fn give_all_back(&mut self, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        let led: Vec<_> = self.duties.keys().filter(|duty| self.leads(duty, now)).cloned().collect();
        for duty in led {
            self.give_way(&duty, now, out);
        }
    }

    /// Leaders do not take turns where nobody else is.
    fn look_around(&mut self) {
        for (duty, on_board) in &mut self.duties {
            on_board.runner.saw(self.lease_client.is_alone(duty));
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
                    if let Some(on_board) = self.duties.get_mut(&duty) {
                        on_board.runner.gained(None, None, now);
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
                if let Some(on_board) = self.duties.get_mut(duty) {
                    on_board.notes.got_stuck(store_now);
                }
                out.push(DutyStatusEffect::Alert(DutyAlert::Stuck { duty: duty.clone(), lasting }));
            }
            DutyEffect::GiveWay => self.give_way(duty, now, out),
        }
    }

    fn leads_now(&mut self, lease: LeaseFence, metadata: Option<&LeaseMetadata>, now: Moment) {
        let store_now = self.store_now(now);
        let Some(on_board) = self.duties.get_mut(&lease.duty) else { return };
        let due_in = metadata.and_then(|metadata| on_board.take_over(metadata, store_now));
        let duty = lease.duty.clone();
        on_board.runner.gained(Some(lease), due_in, now);
        // So that nobody takes a run of the last leader for one that goes on.
        self.note(&duty, now);
    }

    /// A process whose run does not end wants no lease of that duty: it would only keep it from others.
    fn leads_no_longer(&mut self, duty: &DutyName, now: Moment, out: &mut Vec<DutyStatusEffect>) {
        let Some(on_board) = self.duties.get_mut(duty) else { return };
        if let Some(DutyEffect::Stop(run)) = on_board.runner.lost() {
            out.push(DutyStatusEffect::StopRun(duty.clone(), run));
        }
        if on_board.runner.is_running() {
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
        let Some(on_board) = self.duties.get_mut(duty) else { return };
        (on_board.began_at, on_board.current, on_board.so_far) = (now, Some(run), None);
        on_board.notes.began(store_now);
        let kept = on_board.kept.clone();
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
        let Some(on_board) = self.duties.get_mut(duty) else { return };
        on_board.ended(run, report, store_now, now);
        self.note(duty, now);
        if !self.has_stopped {
            self.locks.want(duty, true, now);
            let effects = self.lease_client.want(duty, true, now);
            self.of_leases(effects, now, out);
        }
    }

    /// Some runs last for minutes, in which they do one thing after the other: what they have done is noted before they end. What they
    /// mean to keep is not: a run that dies half way may have put it down before the work that it stands for.
    fn goes_on(&mut self, duty: &DutyName, run: RunId, report: RunReport, now: Moment) {
        let report = RunReport { kept: None, ..report };
        let Some(on_board) = self.duties.get_mut(duty) else { return };
        let is_news = on_board.so_far.clone().unwrap_or_default() != report;
        if is_news && on_board.current == Some(run) {
            on_board.so_far = Some(report);
            self.note(duty, now);
        }
    }

    /// What a lease is to keep goes with its next renewal.
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
        for (duty, on_board) in &mut self.duties {
            if let Some(DutyEffect::Stop(run)) = on_board.runner.lost() {
                out.push(DutyStatusEffect::StopRun(duty.clone(), run));
            }
        }
    }
}

impl DutyEntry {
    fn new(spec: DutySpec, ring_position: u16, now: Moment) -> Self {
        let runner = DutyRunner::new(spec.clone(), ring_position, now);
        let mut on_board = Self {
            spec,
            runner,
            notes: DutyNotes::default(),
            kept: Map::new(),
            began_at: now,
            current: None,
            so_far: None,
        };
        on_board.say_what_is_usual();
        on_board
    }

    /// What the last leader noted goes on, under this process's own idea of how often the duty runs. Tells in how long the next run
    /// is due, if that is known.
    fn take_over(&mut self, metadata: &LeaseMetadata, store_now: Timestamp) -> Option<Duration> {
        (self.notes, self.kept) = (metadata.notes(), metadata.kept());
        // What a run did that was begun in an earlier term went with that.
        (self.current, self.so_far) = (None, None);
        self.say_what_is_usual();
        self.notes.taken_over(store_now)
    }

    fn say_what_is_usual(&mut self) {
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

    /// What the duty keeps may be too much: then it keeps what it kept before, and its run has failed. Were it taken all the same,
    /// no lease could carry it, nor the notes beside it, and a duty without new notes looks stuck.
    fn keep(&mut self, kept: Map<String, Value>) -> Result<(), String> {
        LeaseMetadata::of(&self.notes, &kept).map_err(|error| error.to_string())?;
        self.kept = kept;
        Ok(())
    }

    /// A run that is under way is noted with what it has done so far, and as one that has not ended: whoever leads next does it again.
    fn metadata(&self) -> Option<LeaseMetadata> {
        let Some(so_far) = &self.so_far else { return LeaseMetadata::of(&self.notes, &self.kept).ok() };
        let mut notes = self.notes.clone();
        notes.goes_on(so_far.items, so_far.error.as_deref());
        LeaseMetadata::of(&notes, &self.kept).ok()
    }
}

#[cfg(test)]
mod tests;
