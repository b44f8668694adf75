//! Leases: which process may do which duty. Core decides inside the writer's transaction, in which no other
//! process writes.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::lease::rules::room_beside;
use windlass_core::lease::{
    LeaseFence, LeaseMetadata, LeaseRelease, LeaseRequest, LeasesRead, Released, Renewal, Renewed,
    StoredLease, Taking, Term, TermId,
};
use windlass_core::limits::{DUTIES_MAX, LEASE_KEPT};
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;

pub(super) fn leases(conn: &Connection, now: Timestamp) -> StoreResult<LeasesRead> {
    let mut statement = conn.prepare_cached(sql!("leases"))?;
    let mut rows = statement.query([DUTIES_MAX])?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        // A damaged name must not keep the others from being read.
        if let Ok(duty) = DutyName::parse(&row.get::<_, String>(0)?) {
            leases.extend(read_lease(duty, row)?);
        }
    }
    Ok(LeasesRead { leases, locks: Vec::new(), now })
}

pub(super) fn hold(conn: &Connection, leases: &[LeaseFence], now: Timestamp) -> StoreResult<Vec<bool>> {
    let holds = |lease: &LeaseFence| {
        let stored = find(conn, &lease.duty)?;
        Ok(stored.is_some_and(|stored| stored.holds(lease.term, now)))
    };
    leases.iter().map(holds).collect()
}

fn find(conn: &Connection, duty: &DutyName) -> StoreResult<Option<StoredLease>> {
    let mut statement = conn.prepare_cached(sql!("find_lease"))?;
    Ok(statement.query_row([duty.as_str()], |row| read_lease(duty.clone(), row)).optional()?.flatten())
}

impl Work<'_> {
    pub(super) fn take_leases(&mut self, request: &LeaseRequest) -> StoreResult<Vec<Taking>> {
        let mut before = Vec::with_capacity(request.duties.len());
        for (duty, _) in &request.duties {
            before.push(find(self.conn, duty)?);
        }
        let mut room = self.room_for(before.iter().filter(|lease| lease.is_none()).count(), request)?;
        let mut takings = Vec::with_capacity(before.len());
        for ((duty, expiry), before) in request.duties.iter().zip(&before) {
            if before.is_none() && room == 0 {
                takings.push(Taking::NoRoom);
                continue;
            }
            room -= usize::from(before.is_none());
            let (taking, after) = StoredLease::take(before.as_ref(), duty, *expiry, request, self.now);
            self.save_lease(after)?;
            takings.push(taking);
        }
        Ok(takings)
    }

    /// Returns how many new duties have room. If not all do, it deletes leases that no worker needs.
    fn room_for(&self, new: usize, request: &LeaseRequest) -> StoreResult<usize> {
        if new == 0 {
            return Ok(0);
        }
        let room = || -> StoreResult<usize> {
            let there: u32 =
                self.conn.prepare_cached(sql!("count_leases"))?.query_row([], |row| row.get(0))?;
            Ok(room_beside(there as usize))
        };
        if new > room()? {
            let requested: Vec<_> = request.duties.iter().map(|(duty, _)| duty.as_str()).collect();
            let requested = serde_json::to_string(&requested).expect("names are JSON");
            let since = self.now.minus(LEASE_KEPT).as_micros();
            self.conn.prepare_cached(sql!("forget_leases"))?.execute(params![since, requested])?;
        }
        room()
    }

    pub(super) fn renew_leases(&mut self, renewals: &[Renewal]) -> StoreResult<Vec<Renewed>> {
        let mut answers = Vec::with_capacity(renewals.len());
        for renewal in renewals {
            let before = find(self.conn, &renewal.lease.duty)?;
            let (renewed, after) = StoredLease::renew(before.as_ref(), renewal, self.now);
            self.save_lease(after)?;
            answers.push(renewed);
        }
        Ok(answers)
    }

    pub(super) fn release_leases(&mut self, releases: &[LeaseRelease]) -> StoreResult<Vec<Released>> {
        let mut answers = Vec::with_capacity(releases.len());
        for release in releases {
            let before = find(self.conn, &release.duty)?;
            let (released, after) = StoredLease::release(before.as_ref(), release);
            self.save_and_hint(after)?;
            answers.push(released);
        }
        Ok(answers)
    }

    pub(super) fn step_down(&mut self, duty: &DutyName) -> StoreResult<Changed> {
        let before = find(self.conn, duty)?;
        let (changed, after) = StoredLease::step_down(before.as_ref(), self.now);
        self.save_and_hint(after)?;
        Ok(changed)
    }

    fn save_and_hint(&mut self, lease: Option<StoredLease>) -> StoreResult<()> {
        if let Some(lease) = &lease {
            self.did.hints.lease(&lease.duty);
        }
        self.save_lease(lease)
    }

    fn save_lease(&mut self, lease: Option<StoredLease>) -> StoreResult<()> {
        let Some(lease) = lease else { return Ok(()) };
        self.conn.prepare_cached(sql!("save_lease"))?.execute(params![
            lease.duty.as_str(),
            lease.holder.map(WorkerId::to_bytes),
            lease.since.as_micros(),
            lease.heartbeat.as_micros(),
            lease.metadata.as_str(),
            lease.term.fence,
            lease.term.id.to_bytes(),
            i64::try_from(lease.expiry.as_micros()).unwrap_or(i64::MAX),
            i64::try_from(lease.takeovers).unwrap_or(i64::MAX),
            lease.asked_to_step_down,
        ])?;
        Ok(())
    }
}

/// Reads a lease. A lease with a damaged term counts as never written: the next fence is no lower than the
/// time, and so higher than the last one.
fn read_lease(duty: DutyName, row: &Row<'_>) -> rusqlite::Result<Option<StoredLease>> {
    let (holder, term) = (row.get::<_, Option<Vec<u8>>>(1)?, row.get::<_, Vec<u8>>(6)?);
    let Ok(id) = <[u8; 16]>::try_from(term) else { return Ok(None) };
    Ok(Some(StoredLease {
        duty,
        holder: holder.and_then(|bits| bits.try_into().ok()).map(WorkerId::from_bytes),
        since: Timestamp::from_micros(row.get(2)?),
        heartbeat: Timestamp::from_micros(row.get(3)?),
        metadata: LeaseMetadata::from_store(row.get_ref(4)?.as_str().unwrap_or_default()),
        term: Term { fence: row.get(5)?, id: TermId::from_bytes(id) },
        expiry: Duration::from_micros(row.get::<_, i64>(7)?.unsigned_abs()),
        takeovers: row.get::<_, i64>(8)?.unsigned_abs(),
        asked_to_step_down: row.get(9)?,
    }))
}
