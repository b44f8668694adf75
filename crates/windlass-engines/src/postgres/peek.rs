//! The peek: whether something is due in queues, and when the next job falls due.

use std::collections::BTreeSet;
use std::time::{Duration, Instant as Moment};

use tokio_postgres::Row;
use windlass_core::claim::{ClaimRequest, NextDue};
use windlass_core::clock::Timestamp;
use windlass_core::limits::QUEUES_PER_CLAIM_MAX;
use windlass_core::names::{QueueName, TypeName};

use super::Store;
use super::catalogue::Catalogue;
use super::claim::type_texts;
use super::claim_cursor::Scope;
use super::claim_ranges::ClaimRanges;
use super::conn::Conn;
use super::store_error::{StoreError, StoreResult};
use super::value::{Instant, Param, instant, text, texts};
use crate::kit::check_batch_size;

/// How often a process peeks while full claims flow.
const PEEK_VALID_FOR: Duration = Duration::from_millis(250);

/// A scan that takes longer than this is not made on behalf of a claim.
const SCAN_FOR_CLAIM_MAX: Duration = Duration::from_secs(1);

impl Store {
    /// How many boosted jobs a claim may take. It is none if the scan for jobs that have waited for long
    /// failed: a claim must not fail because a scan did.
    pub(super) async fn boosting(&self, request: &ClaimRequest, open: &[Scope]) -> u32 {
        if request.boosted_max == 0 {
            return 0;
        }
        match self.refresh_heads(open).await {
            Ok(()) => request.boosted_max,
            Err(fault) => {
                tracing::debug!(
                    ?fault,
                    "scanning for jobs that have waited for long failed; this claim boosts none"
                );
                0
            }
        }
    }

    /// Scans for jobs that have waited for long, if no scan did so lately. Where scans take long, under
    /// another session's old transaction, that is left to the periodic scan, and claims go by the result of
    /// the last one.
    async fn refresh_heads(&self, open: &[Scope]) -> StoreResult<()> {
        if self.last_scan_took() > SCAN_FOR_CLAIM_MAX {
            return Ok(());
        }
        let now = self.estimated_now();
        let stale: Vec<_> = {
            let mut claim_cursors = self.claim_cursors();
            let is_stale = |scope: &&Scope| !claim_cursors.of(scope, Moment::now()).is_fresh(now);
            open.iter().filter(is_stale).cloned().collect()
        };
        if !stale.is_empty() {
            self.scan_scopes(&stale).await?;
        }
        Ok(())
    }

    /// Returns the peek after a claim, unless it was sent together with the claim. While big claims are
    /// full, there is more as far as the process can tell without a query, so it peeks only a few times a
    /// second.
    pub(super) async fn peek_after(
        &self,
        request: &ClaimRequest,
        catalogue: &Catalogue,
        open: &[Scope],
        skips_peek: bool,
        ahead: Option<NextDue>,
    ) -> StoreResult<NextDue> {
        let remembered = self.claim_cursors().cached_peek(open, Moment::now(), PEEK_VALID_FOR);
        let peek = match (ahead, remembered) {
            (Some(ahead), _) => ahead,
            (None, Some(peek)) if skips_peek => NextDue { more_due: true, ..peek },
            _ => {
                let conn = self.work.get().await?;
                let ahead = self.scan_ahead(&conn, open).await?;
                self.claim_cursors().cache_peeks(open, &ahead, Moment::now());
                ahead.into_iter().fold(NextDue::default(), join)
            }
        };
        Ok(peek.with_ends_of_pauses(ends_of_pauses(catalogue, &request.queues), self.estimated_now()))
    }

    pub(super) async fn peek(
        &self,
        queues: Vec<QueueName>,
        types: Vec<TypeName>,
    ) -> StoreResult<Vec<(QueueName, NextDue)>> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", queues.len())?;
        self.reload().await?;
        let catalogue = self.catalogue();
        let now = self.estimated_now();
        let conn = self.work.get().await?;
        let mut all = Vec::new();
        for queue in queues {
            let open = open_scopes(&catalogue, std::slice::from_ref(&queue), &types, now);
            let ahead = self.scan_ahead(&conn, &open).await?.into_iter().fold(NextDue::default(), join);
            let ends = ends_of_pauses(&catalogue, std::slice::from_ref(&queue));
            all.push((queue, ahead.with_ends_of_pauses(ends, now)));
        }
        Ok(all)
    }

    /// Peeks at each of these scopes, from the claim cursors.
    async fn scan_ahead(&self, conn: &Conn, scopes: &[Scope]) -> StoreResult<Vec<NextDue>> {
        let mut peeks = Vec::new();
        for scope in scopes {
            let peek_params = PeekParams::of(self, scope);
            let rows = conn.query(&self.sql.scan_ahead, &peek_params.params()).await?;
            peeks.extend(rows.first().map(read_peek).transpose()?);
        }
        Ok(peeks)
    }
}

/// The parameters of a peek at one queue.
pub(super) struct PeekParams<'a> {
    now: Option<Instant>,
    queue: &'a str,
    types: Option<Vec<String>>,
    ranges: ClaimRanges,
}

impl<'a> PeekParams<'a> {
    pub(super) fn of(store: &Store, scope: &'a Scope) -> Self {
        let ranges = store.ranges(scope, &store.order(scope, 0));
        Self { now: store.now_param(), queue: scope.queue.as_str(), types: type_texts(scope), ranges }
    }

    pub(super) fn params(&self) -> [Param<'_>; 6] {
        let [priorities, after_due, after_id] = self.ranges.starts();
        [instant(&self.now), text(&self.queue), texts(&self.types), priorities, after_due, after_id]
    }
}

pub(super) fn read_peek(row: &Row) -> StoreResult<NextDue> {
    let next: Option<i64> = row.try_get(1)?;
    Ok(NextDue {
        more_due: row.try_get(0)?,
        next_due_in: next.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
        suspect_due: row.try_get(2)?,
    })
}

/// The peek to report when it failed. A worker must not lose claimed jobs because the peek failed: it
/// claims again, and peeks then.
pub(super) fn unknown(fault: &StoreError) -> NextDue {
    tracing::debug!(?fault, "peeking at the next due job failed; the worker claims again");
    NextDue { more_due: true, ..NextDue::default() }
}

/// Joins the peeks of two queues.
pub(super) fn join(a: NextDue, b: NextDue) -> NextDue {
    NextDue {
        more_due: a.more_due || b.more_due,
        next_due_in: a.next_due_in.into_iter().chain(b.next_due_in).min(),
        suspect_due: a.suspect_due || b.suspect_due,
    }
}

/// The instants at which the pauses of these queues end by themselves.
fn ends_of_pauses(catalogue: &Catalogue, queues: &[QueueName]) -> Vec<Timestamp> {
    queues.iter().filter_map(|name| catalogue.queue(name)?.pause.as_ref()?.until).collect()
}

/// The scope of each queue that is not paused and has at least one of the requested types.
pub(super) fn open_scopes(
    catalogue: &Catalogue,
    queues: &[QueueName],
    types: &[TypeName],
    now: Timestamp,
) -> Vec<Scope> {
    let asked: BTreeSet<&TypeName> = types.iter().collect();
    let open = queues.iter().filter(|name| catalogue.queue(name).is_some_and(|queue| !queue.is_paused(now)));
    let scope = |queue: &QueueName| {
        let of_queue: BTreeSet<_> = catalogue.types_of(queue).map(|spec| &spec.name).collect();
        let wanted: Vec<_> = of_queue.intersection(&asked).map(|name| (*name).clone()).collect();
        let is_all = wanted.len() == of_queue.len();
        (!wanted.is_empty()).then(|| Scope { queue: queue.clone(), types: (!is_all).then_some(wanted) })
    };
    open.filter_map(scope).collect()
}
