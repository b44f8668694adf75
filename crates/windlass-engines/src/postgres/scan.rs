//! The periodic scan: about once a second, one statement for all queues from which this process claims.
//!
//! It finds the work that no notification announced: jobs that came in behind the claim cursors, suspects
//! that other workers left, queues and types that were changed. So it replaces the polls of the worker
//! pools, which it also notifies of queues in which it found nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Moment};

use tokio_postgres::Row;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::fairness::Line;
use windlass_core::job::JobId;
use windlass_core::names::{FairnessKey, QueueName};
use windlass_core::priority::Priority;

use super::Store;
use super::claim_cursor::{FullScan, Position, Scope, before_all};
use super::conn::Conn;
use super::store_error::{StoreError, StoreResult};
use super::value::{Instant, instant, numbers, texts};
use crate::kit::to_json;

/// A scan takes at most this part of the time, however much it has to walk over.
const SCAN_PART: u32 = 50;
/// The pause between two scans is at most this long, unless one scan takes longer: marks of waiting
/// processes and records of requeued jobs are kept for one minute.
const SCAN_PAUSE_MAX: Duration = Duration::from_secs(30);
/// A scan that takes this long has walked over thousands of rows, and claims should not.
const LONG_SCAN: Duration = Duration::from_millis(5);
/// After this number of failures in a row, and each multiple of it, a warning is logged.
const WARN_EVERY: u32 = 10;
/// A queue from which nothing was claimed for this long is no longer scanned: workers claim at least once a
/// day.
const IN_USE_FOR: Duration = Duration::from_secs(25 * 60 * 60);

/// The result of a scan.
#[derive(Debug, Default)]
struct ScanResult {
    /// The first job of each priority and its fairness key as stored, by the index of its scope.
    first: HashMap<(usize, Priority), (Position, Option<String>)>,
    /// When the first suspect is due, by the index of its scope.
    suspects: HashMap<usize, Timestamp>,
    requeued: Vec<(QueueName, Priority, Position)>,
    /// The version of the catalogue, and the store's clock.
    version: Option<(i64, Timestamp)>,
    /// Whether ordering keys are marked that no process has gone on with.
    has_marks: bool,
    /// Scopes, by index, whose queues have jobs with fairness keys without a record of that.
    fairness_keys: HashSet<usize>,
}

impl ScanResult {
    fn read(rows: &[Row]) -> StoreResult<Self> {
        let mut found = Self::default();
        rows.iter().try_for_each(|row| found.add_row(row))?;
        Ok(found)
    }

    fn add_row(&mut self, row: &Row) -> StoreResult<()> {
        let place: Option<i64> = row.try_get(0)?;
        let place = place.map(|place| usize::try_from(place).unwrap_or(0).saturating_sub(1));
        let priority: Option<i16> = row.try_get(1)?;
        let at = row.try_get::<_, Instant>(2)?.0;
        match (place, priority.map(|level| Priority::new(level.into()))) {
            (Some(place), Some(Ok(priority))) => {
                self.first.insert((place, priority), ((at, JobId(row.try_get(3)?)), row.try_get(4)?));
            }
            (Some(place), None) => _ = self.suspects.insert(place, at),
            (None, Some(Ok(priority))) => {
                self.requeued
                    .extend(QueueName::parse(row.try_get(4)?).map(|queue| (queue, priority, before_all(at))));
            }
            (None, None) => {
                self.version = Some((row.try_get(3)?, at));
                self.has_marks = row.try_get::<_, Option<&str>>(4)?.is_some();
            }
            (Some(place), Some(Err(_))) if priority == Some(-1) => _ = self.fairness_keys.insert(place),
            // A priority that no version of Windlass has written.
            (_, Some(Err(_))) => {}
        }
        Ok(())
    }

    /// The queues of these scopes in which something is due.
    fn due(&self, scopes: &[Scope], now: Timestamp) -> HashSet<QueueName> {
        let jobs = self.first.iter().map(|((place, _), ((due, _), _))| (*place, *due));
        let suspects = self.suspects.iter().map(|(place, due)| (*place, *due));
        let due = jobs.chain(suspects).filter(|(_, due)| *due <= now);
        due.filter_map(|(place, _)| Some(scopes.get(place)?.queue.clone())).collect()
    }
}

fn pause_after(took: Duration) -> Duration {
    (took * SCAN_PART).min(SCAN_PAUSE_MAX.max(took))
}

/// Logs a failed scan. A scan that fails now and then is no concern. But only a scan finds jobs that came
/// in behind the claim cursors.
fn log_failure(fault: &StoreError, in_a_row: u32) {
    if in_a_row.is_multiple_of(WARN_EVERY) {
        tracing::warn!(
            ?fault,
            in_a_row,
            "scans for work keep failing; `windlass doctor` names the session that holds back vacuum"
        );
    } else {
        tracing::debug!(?fault, "scanning for work failed; trying again");
    }
}

impl Store {
    /// Scans from the very front, about once a second, for as long as the engine lives.
    pub(super) async fn keep_scanning(store: Weak<Self>, every: Duration) {
        let (mut pause, mut failed) = (every, 0_u32);
        loop {
            // may sleep: this is the poll itself; the pause keeps what idle processes cost the server small.
            tokio::time::sleep(pause).await;
            let Some(store) = store.upgrade() else { return };
            pause = match store.scan_in_use().await {
                Ok(()) => {
                    failed = 0;
                    every.max(pause_after(store.last_scan_took()))
                }
                // The elapsed time says only for how long the server did not answer.
                Err(fault) => {
                    failed += 1;
                    log_failure(&fault, failed);
                    every
                }
            };
        }
    }

    /// Scans all queues in use once: claim cursors rewind to jobs that were missed, and waiting workers are
    /// notified.
    async fn scan_in_use(&self) -> StoreResult<()> {
        self.mark_again().await;
        let scopes = self.claim_cursors().in_use(Moment::now(), IN_USE_FOR);
        if scopes.is_empty() {
            return Ok(());
        }
        let conn = self.work.get().await?;
        let found = self.scan(&conn, &scopes).await?;
        drop(conn);
        if found.has_marks
            && let Err(fault) = self.handle_marks().await
        {
            // The rest of the scan's result is reported all the same.
            tracing::debug!(?fault, "advancing ordering keys failed; the next scan tries again");
        }
        let with_fairness_keys =
            found.fairness_keys.iter().filter_map(|place| Some(scopes.get(*place)?.queue.to_string()));
        self.use_fairness_keys(with_fairness_keys.collect()).await;
        if found.version.is_some_and(|(version, _)| version != self.catalogue().version) {
            self.reload().await?;
            self.listeners.tell(&Hint::Any);
            return Ok(());
        }
        let (catalogue, now) = (self.catalogue(), self.estimated_now());
        let mut due = found.due(&scopes, now);
        // Jobs of a paused queue cannot be claimed; resuming it changes the version.
        due.retain(|queue| catalogue.queue(queue).is_some_and(|queue| !queue.is_paused(now)));
        due.iter().for_each(|queue| self.listeners.tell(&Hint::Queue(queue.clone())));
        let scanned_queues: HashSet<_> = scopes.into_iter().map(|scope| scope.queue).collect();
        self.listeners.tell(&Hint::Quiet(scanned_queues.difference(&due).cloned().collect()));
        Ok(())
    }

    /// How long the last scan took.
    pub(super) fn last_scan_took(&self) -> Duration {
        Duration::from_micros(self.scan_micros.load(Ordering::Relaxed))
    }

    /// Scans these queues for jobs that have waited for long, and for jobs behind the claim cursors.
    pub(super) async fn scan_scopes(&self, scopes: &[Scope]) -> StoreResult<()> {
        let conn = self.work.get().await?;
        self.scan(&conn, scopes).await.map(|_| ())
    }

    /// Scans for jobs that came in behind the claim cursors, if another process announced some. Returns
    /// whether to claim again. Where a scan has a long way to go, only the records of requeued jobs are
    /// read; the periodic scan finds other jobs that came in late.
    pub(super) async fn finds_notified_jobs(&self, open: &[Scope]) -> StoreResult<bool> {
        if !self.claim_cursors().take_notified(open) {
            return Ok(false);
        }
        if self.last_scan_took() >= LONG_SCAN {
            return self.rewind_to_requeued(open).await;
        }
        self.scan_scopes(open).await?;
        Ok(true)
    }

    /// Rewinds to the jobs that other processes have requeued lately. Returns whether some are in these
    /// queues.
    async fn rewind_to_requeued(&self, open: &[Scope]) -> StoreResult<bool> {
        let (start, at) = (Moment::now(), self.estimated_now());
        let rows = self.work.get().await?.query(&self.sql.requeued_jobs, &[]).await?;
        let mut requeued = Vec::with_capacity(rows.len());
        for row in &rows {
            // A name or a priority that no version of Windlass has written can be claimed by no worker.
            let priority = Priority::new(row.try_get::<_, i16>(1)?.into());
            if let (Ok(queue), Ok(priority)) = (QueueName::parse(row.try_get(0)?), priority) {
                requeued.push((queue, priority, before_all(row.try_get::<_, Instant>(2)?.0)));
            }
        }
        self.claim_cursors().requeued_by_others(&requeued, start, at);
        Ok(requeued.iter().any(|(queue, ..)| open.iter().any(|scope| scope.queue == *queue)))
    }

    /// Lets claims go on behind jobs that are too late and cannot be cancelled, until a scan comes back to
    /// them. Returns whether there was a job that had not been skipped before.
    pub(super) async fn skip_stuck(&self, open: &[Scope], late: Vec<i64>, passed: &mut HashSet<i64>) -> bool {
        let stuck: Vec<_> = late.into_iter().filter(|id| passed.insert(*id)).collect();
        match self.ctids_of(&stuck).await {
            Ok(places) => self.claim_cursors().skip_stuck(open, &places),
            Err(fault) => tracing::debug!(
                ?fault,
                "reading the positions of jobs that cannot be cancelled failed; claims stop before them"
            ),
        }
        !stuck.is_empty()
    }

    async fn ctids_of(&self, ids: &[i64]) -> StoreResult<Vec<(QueueName, Priority, Line, Position)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.to_vec();
        let rows = self.work.get().await?.query(&self.sql.ctids_of, &[numbers(&ids)]).await?;
        let mut places = Vec::with_capacity(rows.len());
        for row in &rows {
            let priority = Priority::new(row.try_get::<_, i16>(1)?.into());
            if let (Ok(queue), Ok(priority)) = (QueueName::parse(row.try_get(0)?), priority) {
                let fairness_key: Option<&str> = row.try_get(4)?;
                let line = fairness_key.and_then(|fairness_key| FairnessKey::parse(fairness_key).ok());
                let place = (row.try_get::<_, Instant>(2)?.0, JobId(row.try_get(3)?));
                places.push((queue, priority, line, place));
            }
        }
        Ok(places)
    }

    /// Scans some queues from the very front, and reads where other processes have requeued jobs.
    async fn scan(&self, conn: &Conn, scopes: &[Scope]) -> StoreResult<ScanResult> {
        let queues: Vec<_> = scopes.iter().map(|scope| scope.queue.to_string()).collect();
        let types: Vec<_> = scopes.iter().map(|scope| scope.types.as_ref().map(to_json)).collect();
        let (start, at, now) = (Moment::now(), self.estimated_now(), self.now_param());
        let rows = conn.query(&self.sql.scan, &[texts(&queues), texts(&types), instant(&now)]).await?;
        self.scan_micros
            .store(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let found = ScanResult::read(&rows)?;
        if let Some((_, now)) = found.version {
            self.learn_time(now);
        }
        self.claim_cursors().requeued_by_others(&found.requeued, start, at);
        let long = (self.last_scan_took() >= LONG_SCAN).then_some(FullScan { began: start, at });
        self.apply_scan(scopes, &found, long);
        Ok(found)
    }

    fn apply_scan(&self, scopes: &[Scope], found: &ScanResult, long: Option<FullScan>) {
        let now = self.estimated_now();
        let mut claim_cursors = self.claim_cursors();
        for (place, scope) in scopes.iter().enumerate() {
            claim_cursors.scanned(scope, now);
            for priority in Priority::all() {
                let head = found.first.get(&(place, priority));
                claim_cursors.found_first(scope, priority, head);
                if let Some(scan) = long {
                    claim_cursors.advance(scope, priority, head.map(|(place, _)| *place), scan);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_takes_a_fiftieth_of_the_time_and_comes_every_half_minute_all_the_same() {
        let pauses = [2, 200, 2_000, 60_000].map(|millis| pause_after(Duration::from_millis(millis)));
        assert_eq!(pauses.map(|pause| pause.as_millis()), [100, 10_000, 30_000, 60_000]);
    }
}
