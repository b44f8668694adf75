//! Leases: which process may do which duty. Each call is one statement, which decides as core does.

use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::admin::Changed;
use windlass_core::engine::Hint;
use windlass_core::lease::{
    LeaseFence, LeaseMetadata, LeaseRelease, LeaseRequest, LeasesRead, Released, Renewal, Renewed,
    StoredLease, Taking, Term, TermId,
};
use windlass_core::limits::{DUTIES_MAX, LEASE_KEPT};
use windlass_core::names::DutyName;

use super::Store;
use super::listen::LEASE;
use super::store_error::{StoreError, StoreResult};
use super::value::{
    Bits, Instant, instant, int4, micros, number, numbers, small_number, text, texts, uuid, uuids,
};

/// How often a request is tried because another process was faster, and after which pause. The lease that
/// the statement saw when it began had expired by the time it got the lock.
const ATTEMPTS_MAX: usize = 3;
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(5);

impl Store {
    pub(super) async fn take_leases(&self, request: LeaseRequest) -> StoreResult<Vec<Taking>> {
        let mut takings = self.try_to_take(&request).await?;
        for _ in 1..ATTEMPTS_MAX {
            if !takings.contains(&Taking::Busy) {
                break;
            }
            // may sleep: the faster process, or one that holds the row in a transaction, needs time to
            // commit.
            tokio::time::sleep(OVERTAKEN_PAUSE).await;
            // Leases that an earlier attempt took are the caller's, whatever the result of this attempt.
            takings = self.try_to_take(&request).await.map_err(StoreError::after_write)?;
        }
        Ok(takings)
    }

    async fn try_to_take(&self, request: &LeaseRequest) -> StoreResult<Vec<Taking>> {
        let (now, worker, id) = (self.now_param(), Bits::from(request.worker), Bits::from(request.id));
        let names: Vec<_> = request.duties.iter().map(|(duty, _)| duty.as_str()).collect();
        let expiries: Vec<_> = request.duties.iter().map(|(_, expiry)| micros(*expiry)).collect();
        let (most, kept) = (i64::from(DUTIES_MAX), micros(LEASE_KEPT));
        let params = [
            instant(&now),
            texts(&names),
            numbers(&expiries),
            uuid(&worker),
            uuid(&id),
            number(&most),
            number(&kept),
        ];
        let rows = self.work.get().await?.execute(&self.sql.take_leases, &params).await?;
        rows.iter().map(|row| read_taking(row, request.id)).collect()
    }

    pub(super) async fn renew_leases(&self, renewals: Vec<Renewal>) -> StoreResult<Vec<Renewed>> {
        let now = self.now_param();
        let leases = Named::of(renewals.iter().map(|renewal| &renewal.lease));
        let metadata: Vec<_> =
            renewals.iter().map(|renewal| renewal.metadata.as_ref().map(LeaseMetadata::as_str)).collect();
        let params = [
            instant(&now),
            texts(&leases.duties),
            numbers(&leases.fences),
            uuids(&leases.terms),
            texts(&metadata),
        ];
        // The connection of heartbeats: while all others are busy, a holder must not lose its leases.
        let rows = self.heart.get().await?.execute(&self.sql.renew_leases, &params).await?;
        let read = |row: &Row| -> StoreResult<Renewed> {
            Ok(match (row.try_get(0)?, row.try_get(1)?) {
                (false, _) => Renewed::Lost,
                (true, true) => Renewed::GiveWay,
                (true, false) => Renewed::Kept,
            })
        };
        rows.iter().map(read).collect()
    }

    pub(super) async fn release_leases(&self, releases: Vec<LeaseRelease>) -> StoreResult<Vec<Released>> {
        let channel = self.channels.all();
        let duties: Vec<_> = releases.iter().map(|release| release.duty.as_str()).collect();
        let terms: Vec<_> = releases.iter().map(|release| Bits::from(release.id)).collect();
        let metadata: Vec<_> =
            releases.iter().map(|release| release.metadata.as_ref().map(LeaseMetadata::as_str)).collect();
        let params = [texts(&duties), uuids(&terms), texts(&metadata), text(&channel), text(&LEASE)];
        let rows = self.work.get().await?.execute(&self.sql.release_leases, &params).await?;
        let mut answers = Vec::with_capacity(rows.len());
        for (row, release) in rows.iter().zip(&releases) {
            if row.try_get(1)? {
                self.listeners.tell(&Hint::Lease(release.duty.clone()));
            }
            answers.push(if row.try_get(0)? { Released::Done } else { Released::Lost });
        }
        Ok(answers)
    }

    pub(super) async fn leases_hold(&self, fences: Vec<LeaseFence>) -> StoreResult<Vec<bool>> {
        let (now, leases) = (self.now_param(), Named::of(fences.iter()));
        let params = [instant(&now), texts(&leases.duties), numbers(&leases.fences), uuids(&leases.terms)];
        let rows = self.work.get().await?.query(&self.sql.leases_hold, &params).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    pub(super) async fn leases(&self) -> StoreResult<LeasesRead> {
        let (now, most) = (self.now_param(), int4(DUTIES_MAX));
        let params = [instant(&now), small_number(&most)];
        let rows = self.work.get().await?.query(&self.sql.leases, &params).await?;
        let now = rows.first().map(|row| row.try_get::<_, Instant>(0)).transpose()?;
        let now = now.map_or_else(|| self.estimated_now(), |now| now.0);
        let leases = rows.iter().filter_map(|row| read_lease(row).transpose()).collect::<StoreResult<_>>()?;
        Ok(LeasesRead { leases, locks: self.duty_locks().await?, now })
    }

    pub(super) async fn step_down(&self, duty: DutyName) -> StoreResult<Changed> {
        let (now, name, channel) = (self.now_param(), duty.as_str(), self.channels.all());
        let params = [instant(&now), text(&name), text(&channel), text(&LEASE)];
        let rows = self.work.get().await?.execute(&self.sql.step_down, &params).await?;
        let Some(row) = rows.first() else { return Ok(Changed::NotFound) };
        if !row.try_get(0)? {
            return Ok(Changed::Unchanged);
        }
        self.listeners.tell(&Hint::Lease(duty));
        Ok(Changed::Done)
    }
}

/// Leases, as statements take them.
struct Named<'a> {
    duties: Vec<&'a str>,
    fences: Vec<i64>,
    terms: Vec<Bits>,
}

impl<'a> Named<'a> {
    fn of(leases: impl Iterator<Item = &'a LeaseFence> + Clone) -> Self {
        Self {
            duties: leases.clone().map(|lease| lease.duty.as_str()).collect(),
            fences: leases.clone().map(|lease| lease.term.fence).collect(),
            terms: leases.map(|lease| Bits::from(lease.term.id)).collect(),
        }
    }
}

/// Reads the answer about one lease: its present state if the statement wrote it, otherwise its state when
/// the statement began. If it was free then, another process was faster or has not finished with it.
fn read_taking(row: &Row, id: TermId) -> StoreResult<Taking> {
    if let Some(fence) = row.try_get(0)? {
        return Ok(Taking::Taken(Term { fence, id }, LeaseMetadata::from_store(row.try_get(1)?)));
    }
    if row.try_get(2)? {
        return Ok(Taking::NoRoom);
    }
    if row.try_get(3)? {
        return Ok(Taking::Over);
    }
    let left = row.try_get::<_, Option<i64>>(5)?.and_then(|left| u64::try_from(left).ok());
    let holder = row.try_get::<_, Option<Bits>>(4)?.zip(left.filter(|left| *left > 0));
    let held =
        |(by, left): (Bits, _)| Taking::Held { by: by.into(), expires_in: Duration::from_micros(left) };
    Ok(holder.map_or(Taking::Busy, held))
}

/// Reads a lease, if the row holds one.
fn read_lease(row: &Row) -> StoreResult<Option<StoredLease>> {
    let Some(name) = row.try_get::<_, Option<&str>>(1)? else { return Ok(None) };
    // A damaged name must not keep the other leases from being read.
    let Ok(duty) = DutyName::parse(name) else { return Ok(None) };
    Ok(Some(StoredLease {
        duty,
        holder: row.try_get::<_, Option<Bits>>(2)?.map(Into::into),
        since: row.try_get::<_, Instant>(3)?.0,
        heartbeat: row.try_get::<_, Instant>(4)?.0,
        metadata: LeaseMetadata::from_store(row.try_get(5)?),
        term: Term { fence: row.try_get(6)?, id: row.try_get::<_, Bits>(7)?.into() },
        expiry: Duration::from_micros(row.try_get::<_, i64>(8)?.unsigned_abs()),
        takeovers: row.try_get::<_, i64>(9)?.unsigned_abs(),
        asked_to_step_down: row.try_get(10)?,
    }))
}
