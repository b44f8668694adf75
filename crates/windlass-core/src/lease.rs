//! Leases: the right to do a duty. Of all processes on a store, one at a time holds the lease of a duty, renews it, and
//! gives it back; if it falls silent, another takes over once the lease has expired by the store's clock.
//!
//! A lease saves work; it never gives correctness. A holder may be frozen between its last look at the clock and its next
//! write, so whatever a duty does must be right if two do it at once. What keeps a holder that slept from writing is the
//! **fence**: each term of a lease has a number that rises, and a random id. Whoever writes under a lease names the
//! [`LeaseFence`], and the statement that writes checks in the same transaction that the term still holds:
//!
//! - PostgreSQL: `… AND EXISTS (SELECT 1 FROM windlass.background_job_leases WHERE job_name = $1 AND fence = $2 AND term = $3
//!   AND held_by_worker_id IS NOT NULL AND heartbeat_at + expiry_micros * interval '1 microsecond' > clock_timestamp()
//!   FOR KEY SHARE)`. A new term changes the fence, which is part of a unique key, and so waits for whoever holds a key share;
//!   a renewal changes no key, and does not.
//! - SQLite: the same without the lock, with instants in microseconds: who writes is alone.
//! - Redis: a script that has the part `leases.lua` asks `lease_holds(duty, fence, term)` before it writes.
//! - Outside a store, the other side remembers the highest fence it has seen and refuses lower ones.
//!
//! [`rules`] decides what becomes of a lease, [`lease_client`] what a process does to get and keep leases, [`members`] how many
//! processes share the looking.

pub mod rules;
pub mod lease_client;
pub mod membership;
mod timing;
mod metadata;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::admin::Changed;
use crate::clock::Timestamp;
use crate::engine::Result;
use crate::error::EngineError;
#[cfg(doc)]
use crate::limits::DUTIES_MAX;
use crate::limits::{DUTIES_PER_CALL_MAX, DUTY_EXPIRY_MAX, DUTY_EXPIRY_MIN};
use crate::names::DutyName;
use crate::worker::{WorkerId, WorkerSighting};

pub use metadata::{DutyNotes, LeaseMetadata, LeaseMetadataError};

/// Who may do which duty. Each method is one atomic statement or script, on the store's clock. An engine that keeps no leases
/// says so by the methods as they are given here.
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// Takes each of these leases that nobody holds or whose heartbeat is older than its expiry. A repeat of a request with
    /// its id answers as the first time, and counts as a heartbeat. If there is no room for a new duty, leases are forgotten
    /// that nobody held for thirty days.
    async fn take_leases(&self, _request: &LeaseRequest) -> Result<Vec<Taking>> {
        not_kept()
    }

    /// Heartbeats of leases, each only if its term still holds: one that has expired is over, even if nobody took it.
    async fn renew_leases(&self, _renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        not_kept()
    }

    /// Gives leases back, each only if its term was not followed by another, and tells whoever waits for them. Repeating
    /// gives the same answers.
    async fn release_leases(&self, _releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        not_kept()
    }

    /// Which of these terms still hold by the store's clock.
    async fn leases_hold(&self, _leases: &[LeaseFence]) -> Result<Vec<bool>> {
        not_kept()
    }

    /// All leases, by the names of their duties, those that nobody holds included; at most
    /// [`DUTIES_MAX`]. And as many locks.
    async fn leases(&self) -> Result<LeasesRead> {
        not_kept()
    }

    /// Asks the holder of a lease to give way; it learns of it by its next renewal.
    async fn step_down(&self, _duty: &DutyName) -> Result<Changed> {
        not_kept()
    }

    /// Takes locks of duties that no other session has, or keeps those that this worker has already, and tells for each whether it
    /// has it. They belong to one session of this engine and are free as soon as that ends; there is no fence. Only where
    /// [`DutyModes::advisory_lock`](crate::duty::DutyModes) says so.
    async fn lock_duties(&self, _request: &LockRequest) -> Result<Vec<bool>> {
        no_locks()
    }

    /// Gives locks back that this worker has.
    async fn unlock_duties(&self, _worker: WorkerId, _duties: &[DutyName]) -> Result<()> {
        no_locks()
    }
}

/// A request for locks of duties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// Who wants them.
    pub worker: WorkerId,
    /// Each duty once.
    pub duties: Vec<DutyName>,
    /// What is not asked for again within this time is given back: nobody may know of it.
    pub good_for: Duration,
}

impl LockRequest {
    /// Refuses what no engine should be asked.
    pub fn check(&self) -> Result<()> {
        check_duties(self.duties.iter())
    }
}

fn no_locks<T>() -> Result<T> {
    let why = "this engine has no locks of a session; do the duty under a lease";
    Err(EngineError::Unusable { why: why.to_owned() })
}

fn not_kept<T>() -> Result<T> {
    let why = "this engine keeps no leases; let every worker do the duty";
    Err(EngineError::Unusable { why: why.to_owned() })
}

/// The identity of one term of a lease: 128 random bits, made by the client, one for each request. A number alone would be
/// given a second time by a store that forgot the term.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TermId(u128);

random_bits!(TermId);

impl fmt::Display for TermId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TermId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TermId({self})")
    }
}

/// One time of holding a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Term {
    /// Higher than that of every term before of the same duty, and no lower than the store's time in microseconds. It would
    /// only be given twice by a store that forgot its last terms and whose clock was set back behind them.
    pub fence: i64,
    /// Its identity.
    pub id: TermId,
}

/// What every write under a lease names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseFence {
    /// The duty.
    pub duty: DutyName,
    /// The term in which it is done.
    pub term: Term,
}

/// A request for leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Who wants them.
    pub worker: WorkerId,
    /// The identity of the terms that come of it; random, the same only for a repeat of the same request.
    pub id: TermId,
    /// Each duty once, and for how long its lease is good after a heartbeat.
    pub duties: Vec<(DutyName, Duration)>,
}

impl LeaseRequest {
    /// Refuses what no engine should be asked.
    pub fn check(&self) -> Result<()> {
        check_duties(self.duties.iter().map(|(duty, _)| duty))?;
        self.duties.iter().try_for_each(|(duty, expiry)| check_expiry(duty, *expiry))
    }
}

fn check_expiry(duty: &DutyName, expiry: Duration) -> Result<()> {
    if (DUTY_EXPIRY_MIN..=DUTY_EXPIRY_MAX).contains(&expiry) {
        return Ok(());
    }
    Err(EngineError::Refused(format!(
        "expected the lease of {duty} to expire after {DUTY_EXPIRY_MIN:?} to {DUTY_EXPIRY_MAX:?}, got {expiry:?}"
    )))
}

/// Giving a lease back. It names the term by its id alone, which is random: who asked and heard no answer knows no fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRelease {
    /// The duty.
    pub duty: DutyName,
    /// The identity of the term.
    pub id: TermId,
    /// What is kept with it from now on, if that has changed.
    pub metadata: Option<LeaseMetadata>,
}

impl From<&LeaseFence> for LeaseRelease {
    fn from(lease: &LeaseFence) -> Self {
        Self { duty: lease.duty.clone(), id: lease.term.id, metadata: None }
    }
}

/// Refuses a call about too many leases, or twice about the same.
pub fn check_fences(leases: &[LeaseFence]) -> Result<()> {
    check_duties(leases.iter().map(|lease| &lease.duty))
}

/// The same for leases that are given back.
pub fn check_releases(releases: &[LeaseRelease]) -> Result<()> {
    check_duties(releases.iter().map(|release| &release.duty))
}

/// The same for renewals.
pub fn check_renewals(renewals: &[Renewal]) -> Result<()> {
    check_duties(renewals.iter().map(|renewal| &renewal.lease.duty))
}

fn check_duties<'a>(duties: impl Iterator<Item = &'a DutyName>) -> Result<()> {
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    for duty in duties {
        count += 1;
        if !seen.insert(duty) {
            return Err(EngineError::Refused(format!(
                "expected each duty once in one request, got {duty} twice"
            )));
        }
    }
    if count > DUTIES_PER_CALL_MAX {
        return Err(EngineError::Refused(format!(
            "expected at most {DUTIES_PER_CALL_MAX} duties in one request, got {count}; send them in parts"
        )));
    }
    Ok(())
}

/// What became of a request for one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taking {
    /// It is the caller's, with what the last holder kept with it.
    Taken(Term, LeaseMetadata),
    /// Somebody else's.
    Held {
        /// Whose.
        by: WorkerId,
        /// Its heartbeat cannot be too old before this time has passed.
        expires_in: Duration,
    },
    /// The request was granted before, and its term is over. A request with a new id may be granted.
    Over,
    /// Nobody's, but something under its last term is not finished, or another is taking it at this moment.
    Busy,
    /// Nobody's, but the store keeps leases of [`DUTIES_MAX`] other duties. Give duties few and fixed names.
    NoRoom,
}

/// A heartbeat of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The lease.
    pub lease: LeaseFence,
    /// What is kept with it from now on, if that has changed.
    pub metadata: Option<LeaseMetadata>,
}

/// What became of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It is good for another expiry.
    Kept,
    /// The same, but somebody asked its holder to give way.
    GiveWay,
    /// The term is over. Nothing was written.
    Lost,
}

/// What became of a lease that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// Nobody holds it.
    Done,
    /// The term was over. Nothing was written.
    Lost,
}

/// All leases of a store, and all locks of duties as far as it can tell of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasesRead {
    /// By the names of their duties.
    pub leases: Vec<StoredLease>,
    /// By the names of their duties; none where there are no locks.
    pub locks: Vec<LockRecord>,
    /// The store's now.
    pub now: Timestamp,
}

impl LeasesRead {
    /// The locks that say something of who does a duty now: those that somebody has, and those that nobody has though one of these
    /// workers could do the duty, unless that has a lease by now.
    pub fn locks_that_count<'a>(
        &'a self,
        workers: &'a [WorkerSighting],
    ) -> impl Iterator<Item = &'a LockRecord> {
        let has_lease = |duty: &DutyName| self.leases.iter().any(|lease| lease.duty == *duty);
        let could = |duty: &DutyName| workers.iter().any(|seen| seen.card.duties.contains(duty));
        let counts =
            move |lock: &&LockRecord| lock.holder.is_some() || (could(&lock.duty) && !has_lease(&lock.duty));
        self.locks.iter().filter(counts)
    }
}

/// A lock of a duty that somebody has, or has had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRecord {
    /// Of which duty.
    pub duty: DutyName,
    /// Who has it now.
    pub holder: Option<LockHolder>,
}

/// Who has a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// The session, by the store's number for it.
    pub session: i64,
    /// Which worker took it in that session, and when; nothing if that was not noted, as by a role that may not.
    pub noted: Option<(WorkerId, Timestamp)>,
}

/// A lease as a store keeps it. It stays when nobody holds it, for thirty days at least, with its fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLease {
    /// Of which duty.
    pub duty: DutyName,
    /// Who holds it, or held it when it expired; nobody after it was given back.
    pub holder: Option<WorkerId>,
    /// The last term.
    pub term: Term,
    /// When that began.
    pub since: Timestamp,
    /// The last heartbeat in it.
    pub heartbeat: Timestamp,
    /// For how long it is good after a heartbeat.
    pub expiry: Duration,
    /// How often it was taken from a holder that had fallen silent.
    pub takeovers: u64,
    /// Whether somebody asked its holder to give way.
    pub asked_to_step_down: bool,
    /// What holders keep with it.
    pub metadata: LeaseMetadata,
}

#[cfg(test)]
mod tests;
