//! Leases: the right to do a duty. Of all processes on a store, one at a time holds the lease of a duty,
//! renews it, and releases it. If the holder stops sending heartbeats, another process takes over once
//! the lease has expired by the store's clock.
//!
//! A lease saves work; it never gives correctness. A holder may be frozen between its last read of the
//! clock and its next write, so whatever a duty does must be right if two processes do it at once. What
//! keeps a holder that slept from writing is the **fence**: each term of a lease has a number that rises,
//! and a random id. Every write under a lease names the [`LeaseFence`], and the statement that writes
//! checks in the same transaction that the term still holds:
//!
//! - PostgreSQL: `… AND EXISTS (SELECT 1 FROM windlass.background_job_leases WHERE job_name = $1 AND
//!   fence = $2 AND term = $3 AND held_by_worker_id IS NOT NULL AND heartbeat_at + expiry_micros *
//!   interval '1 microsecond' > clock_timestamp() FOR KEY SHARE)`. A new term changes the fence, which is
//!   part of a unique key, and so waits for every transaction that holds a key share lock; a renewal
//!   changes no key column, and does not wait.
//! - SQLite: the same condition without the row lock, with instants in microseconds: the writing
//!   transaction is the only writer.
//! - Redis: a script that includes the part `leases.lua` calls `lease_holds(duty, fence, term)` before it
//!   writes.
//! - Outside a store, the other system remembers the highest fence it has seen and refuses lower ones.
//!
//! [`rules`] decides the transitions of a lease. [`lease_client`] decides what a process does to get and
//! keep leases. [`membership`] counts the processes that share the polling of leases.

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

/// Stores which process may do which duty. Each method is one atomic statement or script, on the store's
/// clock. An engine without leases keeps the default methods, which return an error that says so.
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// Takes each of these leases that is free or whose heartbeat is older than its expiry. A repeat of a
    /// request with its id returns the first answer, and counts as a heartbeat. If there is no room for a
    /// new duty, the store deletes leases that no worker has held for thirty days.
    async fn take_leases(&self, _request: &LeaseRequest) -> Result<Vec<Taking>> {
        not_kept()
    }

    /// Renews leases, each only if its term still holds. An expired term is over, even if no other worker
    /// took the lease.
    async fn renew_leases(&self, _renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        not_kept()
    }

    /// Releases leases, each only if no later term followed, and notifies the processes that wait for
    /// them. A repeat returns the same answers.
    async fn release_leases(&self, _releases: &[LeaseRelease]) -> Result<Vec<Released>> {
        not_kept()
    }

    /// Returns which of these terms still hold by the store's clock.
    async fn leases_hold(&self, _leases: &[LeaseFence]) -> Result<Vec<bool>> {
        not_kept()
    }

    /// Lists all leases by the names of their duties, including free ones; at most [`DUTIES_MAX`]. Lists
    /// at most as many locks.
    async fn leases(&self) -> Result<LeasesRead> {
        not_kept()
    }

    /// Asks the holder of a lease to give way; the holder learns of the request with its next renewal.
    async fn step_down(&self, _duty: &DutyName) -> Result<Changed> {
        not_kept()
    }

    /// Takes locks of duties that no other session holds, or keeps those that this worker has already,
    /// and returns for each lock whether the worker has it. The locks belong to one session of this
    /// engine and are free as soon as that session ends; there is no fence. Supported only where
    /// [`DutyModes::advisory_lock`](crate::duty::DutyModes) is set.
    async fn lock_duties(&self, _request: &LockRequest) -> Result<Vec<bool>> {
        no_locks()
    }

    /// Releases locks that this worker has.
    async fn unlock_duties(&self, _worker: WorkerId, _duties: &[DutyName]) -> Result<()> {
        no_locks()
    }
}

/// A request for locks of duties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// The worker that requests the locks.
    pub worker: WorkerId,
    /// Each duty once.
    pub duties: Vec<DutyName>,
    /// A lock that is not requested again within this time is released: its worker may not know that it
    /// holds the lock.
    pub good_for: Duration,
}

impl LockRequest {
    /// Refuses a request that no engine should receive.
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

/// The identity of one term of a lease: 128 random bits, made by the client, one for each request. A
/// store that forgot the term would issue a bare number a second time.
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

/// One term of a lease: the time from taking it to losing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Term {
    /// Higher than that of every earlier term of the same duty, and no lower than the store's time in
    /// microseconds. A number could repeat only in a store that forgot its last terms and whose clock was
    /// set back behind them.
    pub fence: i64,
    /// Its identity.
    pub id: TermId,
}

/// The lease and term that every write under a lease names.
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
    /// The worker that requests the leases.
    pub worker: WorkerId,
    /// The identity of the terms that result; random, and the same only for a repeat of the same request.
    pub id: TermId,
    /// Each duty once, with the time for which its lease is good after a heartbeat.
    pub duties: Vec<(DutyName, Duration)>,
}

impl LeaseRequest {
    /// Refuses a request that no engine should receive.
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

/// The release of a lease. It names the term by its id alone, which is random: a process that got no
/// answer to its request knows no fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRelease {
    /// The duty.
    pub duty: DutyName,
    /// The identity of the term.
    pub id: TermId,
    /// The metadata to store with the lease from now on, if it has changed.
    pub metadata: Option<LeaseMetadata>,
}

impl From<&LeaseFence> for LeaseRelease {
    fn from(lease: &LeaseFence) -> Self {
        Self { duty: lease.duty.clone(), id: lease.term.id, metadata: None }
    }
}

/// Refuses a call about too many leases, or about the same lease twice.
pub fn check_fences(leases: &[LeaseFence]) -> Result<()> {
    check_duties(leases.iter().map(|lease| &lease.duty))
}

/// Refuses a call that releases too many leases, or the same lease twice.
pub fn check_releases(releases: &[LeaseRelease]) -> Result<()> {
    check_duties(releases.iter().map(|release| &release.duty))
}

/// Refuses a call that renews too many leases, or the same lease twice.
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

/// The outcome of a request for one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taking {
    /// The caller holds the lease now; the metadata is what the last holder stored with it.
    Taken(Term, LeaseMetadata),
    /// Another worker holds the lease.
    Held {
        /// The holder.
        by: WorkerId,
        /// The time until its heartbeat is older than its expiry; the lease cannot expire earlier.
        expires_in: Duration,
    },
    /// The request was granted before, and its term is over. A request with a new id may be granted.
    Over,
    /// The lease is free, but something under its last term is not finished, or another process is taking
    /// it at this moment.
    Busy,
    /// The lease is free, but the store keeps leases of [`DUTIES_MAX`] other duties. Give duties few and
    /// fixed names.
    NoRoom,
}

/// A heartbeat of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The lease.
    pub lease: LeaseFence,
    /// The metadata to store with the lease from now on, if it has changed.
    pub metadata: Option<LeaseMetadata>,
}

/// The outcome of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is good for another expiry.
    Kept,
    /// The lease is good for another expiry, but its holder was asked to give way.
    GiveWay,
    /// The term is over. Nothing was written.
    Lost,
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lease is free.
    Done,
    /// The term was over. Nothing was written.
    Lost,
}

/// All leases of a store, and all locks of duties as far as the store can list them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasesRead {
    /// The leases, by the names of their duties.
    pub leases: Vec<StoredLease>,
    /// The locks, by the names of their duties; empty where there are no locks.
    pub locks: Vec<LockRecord>,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

impl LeasesRead {
    /// Returns the locks that show which worker does a duty now. These are the held locks, and the free
    /// locks of duties that one of these workers could do, unless the duty has a lease by now.
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

/// A lock of a duty that a session holds, or has held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRecord {
    /// The duty.
    pub duty: DutyName,
    /// The current holder.
    pub holder: Option<LockHolder>,
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// The session, by the store's number for it.
    pub session: i64,
    /// Which worker took it in that session, and when; `None` if that was not noted, for example because
    /// the role lacks the permission.
    pub noted: Option<(WorkerId, Timestamp)>,
}

/// A lease as a store keeps it. A free lease stays stored for at least thirty days, with its fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLease {
    /// The duty.
    pub duty: DutyName,
    /// The worker that holds the lease, or held it when it expired; `None` after a release.
    pub holder: Option<WorkerId>,
    /// The last term.
    pub term: Term,
    /// When the last term began.
    pub since: Timestamp,
    /// The last heartbeat in the last term.
    pub heartbeat: Timestamp,
    /// For how long the lease is good after a heartbeat.
    pub expiry: Duration,
    /// How often another worker took the lease after its holder had stopped sending heartbeats.
    pub takeovers: u64,
    /// Whether the holder was asked to give way.
    pub asked_to_step_down: bool,
    /// The metadata that holders store with the lease.
    pub metadata: LeaseMetadata,
}

#[cfg(test)]
mod tests;
