//! Duty leases: which process may do which duty. Each call is one script, which decides as core does.

use std::time::Duration;

use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::lease::{
    LeaseFence, LeaseMetadata, LeaseRelease, LeaseRequest, LeasesRead, Released, Renewal, Renewed,
    StoredLease, Taking, Term, TermId,
};
use windlass_core::limits::{DUTIES_MAX, LEASE_KEPT};
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use super::Store;
use super::call::Args;
use super::enqueue::micros;
use super::reply::{ReplyReader, text};
use super::store_error::StoreResult;

impl Store {
    pub(super) async fn take_leases(&self, request: LeaseRequest) -> StoreResult<Vec<Taking>> {
        let mut args = Args::new();
        args.text(&hex(request.worker.to_bytes())).text(&hex(request.id.to_bytes()));
        args.number(DUTIES_MAX.into()).number(micros(LEASE_KEPT)).count(request.duties.len());
        for (duty, expiry) in &request.duties {
            args.text(duty.as_str()).number(micros(*expiry));
        }
        let mut answers = ReplyReader::of(self.call(&self.scripts().take_leases, args).await?.value)?;
        request.duties.iter().map(|_| read_taking(&mut answers, request.id)).collect()
    }

    /// Renews on the connection of heartbeats: while the other connection is busy, a holder must not lose its
    /// leases.
    pub(super) async fn renew_leases(&self, renewals: Vec<Renewal>) -> StoreResult<Vec<Renewed>> {
        let mut args = Args::new();
        args.count(renewals.len());
        for renewal in &renewals {
            fence_args(&renewal.lease, &mut args);
            args.text(renewal.metadata.as_ref().map_or("", LeaseMetadata::as_str));
        }
        let reply = self.call_for_heartbeat(&self.scripts().renew_leases, args).await?;
        let mut answers = ReplyReader::of(reply.value)?;
        let read = |_: &Renewal| {
            Ok(match answers.text()?.as_str() {
                "kept" => Renewed::Kept,
                "give way" => Renewed::GiveWay,
                _ => Renewed::Lost,
            })
        };
        renewals.iter().map(read).collect()
    }

    pub(super) async fn release_leases(&self, releases: Vec<LeaseRelease>) -> StoreResult<Vec<Released>> {
        let mut args = Args::new();
        args.count(releases.len());
        for release in &releases {
            args.text(release.duty.as_str()).text(&hex(release.id.to_bytes()));
            args.text(release.metadata.as_ref().map_or("", LeaseMetadata::as_str));
        }
        let reply = self.call(&self.scripts().release_leases, args).await?;
        let mut answers = ReplyReader::of(reply.value)?;
        let mut released = Vec::with_capacity(releases.len());
        for release in releases {
            let outcome = answers.text()?;
            if outcome == "freed" {
                self.listeners.tell(&Hint::Lease(release.duty));
            }
            released.push(if outcome == "lost" { Released::Lost } else { Released::Done });
        }
        Ok(released)
    }

    pub(super) async fn leases_hold(&self, leases: Vec<LeaseFence>) -> StoreResult<Vec<bool>> {
        let reply = self.call(&self.scripts().leases_hold, all_fence_args(&leases)).await?;
        let mut answers = ReplyReader::of(reply.value)?;
        leases.iter().map(|_| answers.flag()).collect()
    }

    pub(super) async fn leases(&self) -> StoreResult<LeasesRead> {
        let mut args = Args::new();
        args.number(DUTIES_MAX.into());
        let reply = self.call(&self.scripts().leases, args).await?;
        let mut rows = ReplyReader::of(reply.value)?;
        let mut leases = Vec::new();
        while !rows.is_empty() {
            leases.extend(read_lease(&mut rows)?);
        }
        leases.sort_by(|a, b| a.duty.cmp(&b.duty));
        Ok(LeasesRead { leases, locks: Vec::new(), now: reply.now })
    }

    pub(super) async fn step_down(&self, duty: DutyName) -> StoreResult<Changed> {
        let mut args = Args::new();
        args.text(duty.as_str());
        match text(self.call(&self.scripts().step_down, args).await?.value)?.as_str() {
            "" => Ok(Changed::NotFound),
            "done" => {
                self.listeners.tell(&Hint::Lease(duty));
                Ok(Changed::Done)
            }
            _ => Ok(Changed::Unchanged),
        }
    }
}

fn all_fence_args(leases: &[LeaseFence]) -> Args {
    let mut args = Args::new();
    args.count(leases.len());
    leases.iter().for_each(|lease| fence_args(lease, &mut args));
    args
}

fn fence_args(lease: &LeaseFence, args: &mut Args) {
    args.text(lease.duty.as_str()).number(lease.term.fence).text(&hex(lease.term.id.to_bytes()));
}

fn hex(bits: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bits))
}

/// Parses 128 bits in hex; `None` if the text is not hex.
fn bits(hex: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)
}

fn read_taking(answers: &mut ReplyReader, id: TermId) -> StoreResult<Taking> {
    match answers.text()?.as_str() {
        "taken" => {
            let term = Term { fence: answers.number()?, id };
            Ok(Taking::Taken(term, LeaseMetadata::from_store(&answers.text()?)))
        }
        "held" => {
            let by = WorkerId::from_bytes(bits(&answers.text()?).unwrap_or_default());
            Ok(Taking::Held { by, expires_in: Duration::from_micros(answers.count()?) })
        }
        outcome => {
            answers.value();
            answers.value();
            Ok(if outcome == "full" { Taking::NoRoom } else { Taking::Over })
        }
    }
}

/// Reads a lease; `None` if its name or its term is damaged.
fn read_lease(rows: &mut ReplyReader) -> StoreResult<Option<StoredLease>> {
    let (duty, fence, term, holder) = (rows.text()?, rows.number()?, rows.text()?, rows.text()?);
    let (since, heartbeat, expiry) = (rows.number()?, rows.number()?, rows.count()?);
    let (takeovers, asked, metadata) = (rows.count()?, rows.text()?, rows.text()?);
    let (Ok(duty), Some(id)) = (DutyName::parse(&duty), bits(&term)) else { return Ok(None) };
    Ok(Some(StoredLease {
        duty,
        holder: bits(&holder).map(WorkerId::from_bytes),
        term: Term { fence, id: TermId::from_bytes(id) },
        since: Timestamp::from_micros(since),
        heartbeat: Timestamp::from_micros(heartbeat),
        expiry: Duration::from_micros(expiry),
        takeovers,
        asked_to_step_down: asked == "1",
        metadata: LeaseMetadata::from_store(&metadata),
    }))
}
