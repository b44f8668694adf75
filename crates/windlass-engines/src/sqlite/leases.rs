//! Leases: who may do which duty. Core decides inside the writer's transaction, in which nobody else writes.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::lease::{
    LeaseFence, LeaseMetadata, LeaseRecord, LeaseRequest, LeasesRead, Released, Renewal, Renewed, Taking,
    Term, TermId, check_room,
};
use windlass_core::limits::DUTIES_MAX;
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use super::fault::Step;
use super::sql::sql;
use super::work::Work;

pub(super) fn leases(conn: &Connection, now: Timestamp) -> Step<LeasesRead> {
    let mut statement = conn.prepare_cached(sql!("leases"))?;
    let mut rows = statement.query([DUTIES_MAX])?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        // A name that was damaged must not keep the others from being read.
        if let Ok(duty) = DutyName::parse(&row.get::<_, String>(0)?) {
            leases.push(read_lease(duty, row)?);
        }
    }
    Ok(LeasesRead { leases, now })
}

pub(super) fn hold(conn: &Connection, leases: &[LeaseFence], now: Timestamp) -> Step<Vec<bool>> {
    let holds = |lease: &LeaseFence| {
        let stored = find(conn, &lease.duty)?;
        Ok(stored.is_some_and(|stored| stored.holds(lease.term, now)))
    };
    leases.iter().map(holds).collect()
}

fn find(conn: &Connection, duty: &DutyName) -> Step<Option<LeaseRecord>> {
    let mut statement = conn.prepare_cached(sql!("find_lease"))?;
    Ok(statement.query_row([duty.as_str()], |row| read_lease(duty.clone(), row)).optional()?)
}

impl Work<'_> {
    pub(super) fn take_leases(&mut self, request: &LeaseRequest) -> Step<Vec<Taking>> {
        let mut before = Vec::with_capacity(request.duties.len());
        for (duty, _) in &request.duties {
            before.push(find(self.conn, duty)?);
        }
        self.check_room(before.iter().filter(|lease| lease.is_none()).count())?;
        let mut takings = Vec::with_capacity(before.len());
        for ((duty, expiry), before) in request.duties.iter().zip(&before) {
            let (taking, after) = LeaseRecord::take(before.as_ref(), duty, *expiry, request, self.now);
            self.save_lease(after)?;
            takings.push(taking);
        }
        Ok(takings)
    }

    fn check_room(&self, new: usize) -> Step<()> {
        if new == 0 {
            return Ok(());
        }
        let there: u32 = self.conn.prepare_cached(sql!("count_leases"))?.query_row([], |row| row.get(0))?;
        Ok(check_room(there as usize + new)?)
    }

    pub(super) fn renew_leases(&mut self, renewals: &[Renewal]) -> Step<Vec<Renewed>> {
        let mut answers = Vec::with_capacity(renewals.len());
        for renewal in renewals {
            let before = find(self.conn, &renewal.lease.duty)?;
            let (renewed, after) = LeaseRecord::renew(before.as_ref(), renewal, self.now);
            self.save_lease(after)?;
            answers.push(renewed);
        }
        Ok(answers)
    }

    pub(super) fn release_leases(&mut self, leases: &[LeaseFence]) -> Step<Vec<Released>> {
        let mut answers = Vec::with_capacity(leases.len());
        for lease in leases {
            let before = find(self.conn, &lease.duty)?;
            let (released, after) = LeaseRecord::release(before.as_ref(), lease.term);
            self.save_and_hint(after)?;
            answers.push(released);
        }
        Ok(answers)
    }

    pub(super) fn step_down(&mut self, duty: &DutyName) -> Step<Changed> {
        let before = find(self.conn, duty)?;
        let (changed, after) = LeaseRecord::step_down(before.as_ref(), self.now);
        self.save_and_hint(after)?;
        Ok(changed)
    }

    fn save_and_hint(&mut self, lease: Option<LeaseRecord>) -> Step<()> {
        if let Some(lease) = &lease {
            self.did.hints.lease(&lease.duty);
        }
        self.save_lease(lease)
    }

    fn save_lease(&mut self, lease: Option<LeaseRecord>) -> Step<()> {
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

fn read_lease(duty: DutyName, row: &Row<'_>) -> rusqlite::Result<LeaseRecord> {
    Ok(LeaseRecord {
        duty,
        holder: row.get::<_, Option<[u8; 16]>>(1)?.map(WorkerId::from_bytes),
        since: Timestamp::from_micros(row.get(2)?),
        heartbeat: Timestamp::from_micros(row.get(3)?),
        metadata: LeaseMetadata::from_store(&row.get::<_, String>(4)?),
        term: Term { fence: row.get(5)?, id: TermId::from_bytes(row.get(6)?) },
        expiry: Duration::from_micros(row.get::<_, i64>(7)?.unsigned_abs()),
        takeovers: row.get::<_, i64>(8)?.unsigned_abs(),
        asked_to_step_down: row.get(9)?,
    })
}
