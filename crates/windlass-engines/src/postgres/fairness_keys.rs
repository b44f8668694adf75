//! Fairness keys take turns.
//!
//! Where a queue has jobs with fairness keys, claims go by fairness key. The engine remembers which keys
//! have something due, scans for others a few times a second, and gives each its portion
//! ([`fairness`](windlass_core::fairness)). What is left of a claim goes to any job that is due. So a key
//! that the engine does not know yet is late by one scan, and no slot stays empty.

mod turns;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Moment};

use tokio_postgres::Row;
use windlass_core::boost::ClaimRange;
use windlass_core::claim::Claimed;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::NewJob;
use windlass_core::fairness::{Line, Ring};
use windlass_core::job::JobId;
use windlass_core::limits::{FAIRNESS_KEYS_KNOWN_MAX, FAIRNESS_KEYS_PER_SCAN_MAX};
use windlass_core::names::{FairnessKey, QueueName};
use windlass_core::priority::Priority;

use super::Store;
use super::catalogue::Catalogue;
use super::claim::{FIRST_JOB_COLUMN, Left, QueueClaim, count_taken, has_late, type_texts};
use super::claim_cursor::{ClaimCursor, FIRST, Position, Scope, before};
use super::claim_ranges::{ClaimRanges, RangeLines};
use super::conn::Tx;
use super::store_error::{StoreError, StoreResult};
use super::value::{
    Bits, Instant, flag, instant, instants, int4, levels, numbers, small_number, text, texts,
};
use crate::kit::JobOptions;
use turns::ROUNDS_MAX;
pub(super) use turns::Turns;

/// How often claims scan for fairness keys, unless the scan takes long.
const SCAN_EVERY: Duration = Duration::from_millis(100);
/// How soon they scan again while no key is known to have anything due.
const SCAN_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Scans for fairness keys take at most this part of the time on average, however long each takes…
const SCAN_PART: u32 = 20;
/// …and this much more for a while. Some scans may follow each other at once until they have overdrawn their
/// part by this much: while it takes several pages to see all keys, after a job with an unknown key was
/// requeued, or after the store's clock was moved.
const SCAN_OVERDRAFT_MAX: Duration = Duration::from_millis(250);
/// A claim waits this long for a scan, and then goes by what is known.
const SCAN_WAITED_FOR: Duration = Duration::from_millis(100);
/// How often a scan reads fairness keys from the very front, for jobs that came in behind the claim
/// cursors.
const SCAN_ALL_EVERY: Duration = Duration::from_secs(2);
/// How many of the very first jobs are scanned for those that came in before others had fairness keys.
const NAMELESS_SCANNED: i32 = 100;

/// The fairness keys of new jobs.
pub(super) type NewLines = Vec<(QueueName, Priority, Line)>;

/// The fairness keys of one scope.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rings: [Ring; 11],
    /// The claim cursor of each.
    cursors: HashMap<(Priority, Line), ClaimCursor>,
    /// Jobs without any fairness key, not even the empty one, among the first of a priority: how many, and
    /// when the last of them falls due.
    nameless: [Option<(u32, Timestamp)>; 11],
    last_scan: Option<LastScan>,
    /// Whether a scan is under way.
    is_scanning: bool,
    /// Whether a job was requeued, or came in.
    notified: bool,
    /// When keys were last read from the very front, and whether the pages of the current tour are.
    scanned_all_at: Option<Moment>,
    scans_all: bool,
}

#[derive(Debug, Clone, Copy)]
struct LastScan {
    at: Moment,
    by_store: Timestamp,
    /// The time by which scans had overdrawn their part by then.
    spent: Duration,
}

impl LastScan {
    /// How much of that is still overdrawn.
    fn spent(&self, now: Moment) -> Duration {
        self.spent.saturating_sub(now.duration_since(self.at) / SCAN_PART)
    }
}

impl Lines {
    pub(super) fn found(&mut self, priority: Priority, line: Line) {
        self.ring(priority).found(line);
    }

    fn ring(&mut self, priority: Priority) -> &mut Ring {
        &mut self.rings[usize::from(priority.level())]
    }

    /// Notes that a job waits again, under an unknown fairness key.
    pub(super) fn notify(&mut self) {
        self.notified = true;
    }

    /// Notes that a job waits again at this position, under an unknown fairness key. The ordinary scans
    /// find jobs that fall due later.
    pub(super) fn requeued(&mut self, priority: Priority, before: Position, now: Timestamp) {
        self.notified |= before.0 <= now;
        let of_priority = self.cursors.iter_mut().filter(|((of, _), _)| *of == priority);
        of_priority.for_each(|(_, cursor)| _ = cursor.rewind(before));
    }

    /// Moves the cursor of one fairness key back to this position, so that claims that have read past it
    /// read there again. The cursors of the other keys stay where they are. Otherwise each scan would make
    /// them read again what a slower key has before it.
    pub(super) fn rewind(&mut self, priority: Priority, line: &Line, to: Position) {
        if let Some(cursor) = self.cursors.get_mut(&(priority, line.clone())) {
            cursor.rewind(to);
        }
    }

    /// Moves the cursor of a fairness key past a job that can neither be claimed nor ended, so that its
    /// claims go on behind it.
    pub(super) fn skip_stuck(&mut self, priority: Priority, line: &Line, position: Position) {
        self.cursors.entry((priority, line.clone())).or_default().follow(position);
    }

    /// Takes the job that a scan from the very front found first in its priority. A job that has no
    /// fairness key at all, not even the empty one, is found under no key. Claims find it from where the
    /// priority is read, and that cursor must not follow the keys past it.
    pub(super) fn found_first(
        &mut self,
        priority: Priority,
        (due, id): Position,
        fairness_key: Option<&str>,
    ) {
        let line = fairness_key.and_then(|fairness_key| FairnessKey::parse(fairness_key).ok());
        self.rewind(priority, &line, before(due, id));
        if fairness_key.is_none() {
            self.found(priority, None);
            self.nameless[usize::from(priority.level())].get_or_insert((1, due));
        }
    }

    /// Whether it is time to scan for fairness keys.
    fn wants_scan(&self, now: Moment, by_store: Timestamp) -> bool {
        let Some(last_scan) = self.last_scan.filter(|_| !self.is_scanning) else { return !self.is_scanning };
        let (ago, spent) = (now.duration_since(last_scan.at), last_scan.spent(now));
        let has_jumped =
            by_store < last_scan.by_store || by_store.since(last_scan.by_store) >= ago + SCAN_EVERY;
        if self.notified || has_jumped || self.has_next_page() {
            return spent < SCAN_OVERDRAFT_MAX;
        }
        let none_known = self.rings.iter().all(Ring::is_empty);
        ago >= (if none_known { SCAN_AGAIN_AFTER } else { SCAN_EVERY }) && spent.is_zero()
    }

    fn has_next_page(&self) -> bool {
        self.rings.iter().any(|ring| ring.look_behind().is_some())
    }

    /// Notes that a scan begins. From here on, notifications are kept: a scan that is under way may not see
    /// their jobs.
    fn begin_scan(&mut self, now: Moment) {
        (self.is_scanning, self.notified) = (true, false);
        if !self.has_next_page() {
            self.scans_all = self.scanned_all_at.is_none_or(|at| now.duration_since(at) >= SCAN_ALL_EVERY);
            self.scanned_all_at = if self.scans_all { Some(now) } else { self.scanned_all_at };
        }
    }

    /// Notes that a scan has ended, well or not: also a failed scan has taken its time.
    fn end_scan(&mut self, began: Moment, now: Moment, by_store: Timestamp) {
        let before = self.last_scan.map_or(Duration::ZERO, |last_scan| last_scan.spent(began));
        let spent = before + now.duration_since(began);
        self.is_scanning = false;
        self.last_scan = Some(LastScan { at: now, by_store, spent });
    }

    fn start(&mut self, priority: Priority, line: &Line, now: Moment) -> Position {
        self.cursors.get_mut(&(priority, line.clone())).map_or(FIRST, |cursor| cursor.start(now))
    }

    /// Notes that a claim took this number of jobs of a fairness key, the last of them at this position.
    fn took(&mut self, priority: Priority, line: &Line, count: u64, last: Position, now: Moment) {
        if self.cursors.len() >= FAIRNESS_KEYS_KNOWN_MAX {
            let rings = &self.rings;
            self.cursors.retain(|(of, line), _| rings[usize::from(of.level())].knows(line));
        }
        self.cursors.entry((priority, line.clone())).or_default().took(count, last, now);
    }

    /// The position before which no job waits, as far as the claims of all fairness keys know. Returns
    /// nothing if there may be keys that they do not know.
    pub(super) fn behind_all(&mut self, priority: Priority, now: Moment) -> Option<Position> {
        let ring = &self.rings[usize::from(priority.level())];
        if ring.look_behind().is_some() {
            return None;
        }
        let cursors = &mut self.cursors;
        let mut start = |line: &Line| {
            cursors
                .get_mut(&(priority, line.clone()))
                .map_or(FIRST, |cursor: &mut ClaimCursor| cursor.start(now))
        };
        ring.lines().map(&mut start).min()
    }
}

/// Learns which queues and fairness keys there are.
impl Store {
    /// Records of queues that they have jobs with fairness keys, before such jobs go in. If that fails, the
    /// scan of a worker does it: a process that only enqueues may lack the right, and then it does not try
    /// again and again.
    pub(super) async fn record_fairness_keys_of(&self, jobs: &[NewJob]) {
        if self.may_not_record_fairness_keys.load(Ordering::Relaxed) {
            return;
        }
        let catalogue = self.catalogue();
        let named = jobs.iter().filter(|new| new.fairness_key.is_some());
        let queues = named.filter_map(|new| Some(&catalogue.type_named(&new.job_type)?.queue));
        let unknown: BTreeSet<_> = queues.filter(|queue| !catalogue.has_fairness_keys(queue)).collect();
        self.use_fairness_keys(unknown.into_iter().map(ToString::to_string).collect()).await;
    }

    /// Records the same of queues from which jobs with fairness keys were claimed.
    pub(super) async fn record_fairness_keys(&self, jobs: &[Claimed], catalogue: &Catalogue) {
        let named = jobs.iter().filter(|claimed| claimed.job.fairness_key.is_some());
        let unknown = named.filter(|claimed| !catalogue.has_fairness_keys(&claimed.job.queue));
        let queues: BTreeSet<_> = unknown.map(|claimed| claimed.job.queue.to_string()).collect();
        self.use_fairness_keys(queues.into_iter().collect()).await;
    }

    pub(super) async fn use_fairness_keys(&self, queues: Vec<String>) {
        if queues.is_empty() {
            return;
        }
        let now = self.now_param();
        let used = async {
            self.work
                .get()
                .await?
                .execute(&self.sql.use_fairness_keys, &[texts(&queues), instant(&now)])
                .await?;
            self.reload().await
        };
        if let Err(fault) = used.await {
            self.may_not_record_fairness_keys.fetch_or(fault.is_forbidden(), Ordering::Relaxed);
            tracing::debug!(
                ?fault,
                ?queues,
                "recording that queues use fairness keys failed; their jobs take no turns yet"
            );
        }
    }

    /// Scans a queue for fairness keys that have something due, if it is time to. One claim at a time does
    /// so, and does not wait for long: a longer scan goes on beside it, and claims go by what is known.
    pub(super) async fn refresh_fairness_keys(&self, scope: &Scope) {
        let (now, by_store) = (Moment::now(), self.estimated_now());
        let Some(store) = self.myself.upgrade() else { return };
        {
            let mut claim_cursors = self.claim_cursors();
            let lines = &mut claim_cursors.of(scope, now).lines;
            if !lines.wants_scan(now, by_store) {
                return;
            }
            lines.begin_scan(now);
        }
        let running = RunningScan { store, scope: scope.clone(), began: now, by_store };
        let scan = tokio::spawn(async move {
            let mut running = running;
            if let Err(fault) = running.store.scan_fairness_keys(&running.scope, now).await {
                tracing::debug!(?fault, "scanning for fairness keys failed; claims go by the known keys");
                if let StoreError::Unreachable(_) = fault {
                    // The elapsed time says only for how long the server did not answer.
                    running.began = Moment::now();
                }
            }
        });
        let _ = tokio::time::timeout(SCAN_WAITED_FOR, scan).await;
    }

    async fn scan_fairness_keys(&self, scope: &Scope, now: Moment) -> StoreResult<()> {
        let (mut priorities, mut behind) = (Vec::<i16>::new(), Vec::new());
        let (mut after_due, mut after_id) = (Vec::new(), Vec::new());
        let mut known = KnownPositions::default();
        {
            let mut claim_cursors = self.claim_cursors();
            let cursors = claim_cursors.of(scope, now);
            if !cursors.lines.scans_all {
                known.push(&mut cursors.lines, now);
            }
            for priority in Priority::all() {
                let (due, id) = cursors.start(priority, now);
                priorities.push(priority.level().into());
                behind
                    .push(cursors.lines.ring(priority).look_behind().map_or("".into(), ToString::to_string));
                after_due.push(Instant(due));
                after_id.push(id.0);
            }
        }
        let (at, queue, types) = (self.now_param(), scope.queue.as_str(), type_texts(scope));
        let (most, nameless) = (int4(FAIRNESS_KEYS_PER_SCAN_MAX), NAMELESS_SCANNED);
        let params = [
            instant(&at),
            text(&queue),
            texts(&types),
            small_number(&most),
            small_number(&nameless),
            levels(&priorities),
            texts(&behind),
            instants(&after_due),
            numbers(&after_id),
            levels(&known.priorities),
            texts(&known.fairness_keys),
            instants(&known.due),
            numbers(&known.ids),
        ];
        let rows = self.work.get().await?.query(&self.sql.fairness_keys_due, &params).await?;
        let mut claim_cursors = self.claim_cursors();
        claim_cursors.of(scope, now).lines.read_rows(&rows)
    }
}

/// A scan that is under way. However it ends, the end is noted.
struct RunningScan {
    store: Arc<Store>,
    scope: Scope,
    began: Moment,
    by_store: Timestamp,
}

impl Drop for RunningScan {
    fn drop(&mut self) {
        let now = Moment::now();
        let mut claim_cursors = self.store.claim_cursors();
        let began = now - self.store.took(self.began);
        claim_cursors.of(&self.scope, now).lines.end_scan(began, now, self.by_store);
    }
}

/// The positions from which fairness keys are read, column by column.
#[derive(Default)]
struct KnownPositions {
    priorities: Vec<i16>,
    fairness_keys: Vec<String>,
    due: Vec<Instant>,
    ids: Vec<i64>,
}

impl KnownPositions {
    fn push(&mut self, lines: &mut Lines, now: Moment) {
        for ((priority, line), cursor) in &mut lines.cursors {
            let (due, id) = cursor.start(now);
            self.priorities.push(priority.level().into());
            self.fairness_keys.push(line.as_ref().map_or_else(String::new, ToString::to_string));
            self.due.push(Instant(due));
            self.ids.push(id.0);
        }
    }
}

impl Lines {
    fn read_rows(&mut self, rows: &[Row]) -> StoreResult<()> {
        self.nameless = [None; 11];
        let mut walked: [(u32, Option<FairnessKey>); 11] = Default::default();
        for row in rows {
            let Ok(priority) = Priority::new(row.try_get::<_, i16>(0)?.into()) else { continue };
            let level = usize::from(priority.level());
            let (fairness_key, due): (Option<&str>, Option<Instant>) = (row.try_get(1)?, row.try_get(2)?);
            let (count, at): (Option<i64>, Instant) = (row.try_get(3)?, row.try_get(4)?);
            let first: Option<i64> = row.try_get(5)?;
            if let (true, Some(fairness_key), Some(due), Some(id)) =
                (self.scans_all, fairness_key, due, first)
            {
                self.rewind(priority, &FairnessKey::parse(fairness_key).ok(), (due.0, JobId(id - 1)));
            }
            match fairness_key.map(FairnessKey::parse) {
                None => {
                    let count = count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
                    self.nameless[level] = due.map(|due| (count, due.0));
                    self.rings[level].found(None);
                }
                // The empty key, and a key that no version of Windlass has written: it counts on the page
                // like any other.
                Some(Err(_)) => {
                    walked[level].0 += u32::from(fairness_key != Some(""));
                    if due.is_some_and(|due| due <= at) {
                        self.rings[level].found(None);
                    }
                }
                Some(Ok(fairness_key)) => {
                    let (count, last) = &mut walked[level];
                    *count += 1;
                    *last = last.take().max(Some(fairness_key.clone()));
                    if due.is_some_and(|due| due <= at) {
                        self.rings[level].found(Some(fairness_key));
                    }
                }
            }
        }
        for (ring, (count, last)) in self.rings.iter_mut().zip(walked) {
            ring.looked_up_to(last.filter(|_| count >= FAIRNESS_KEYS_PER_SCAN_MAX));
        }
        Ok(())
    }
}

impl Lines {
    fn push_line(
        &mut self,
        ranges: &mut ClaimRanges,
        range: &ClaimRange,
        start: Position,
        line: &Line,
        portion: u32,
        now: Moment,
    ) {
        let mut left = portion;
        let nameless = self.nameless[usize::from(range.priority.level())].filter(|_| line.is_none());
        if let Some((count, until)) = nameless {
            // These jobs came before the others.
            let count = count.min(left);
            ranges.push_for(range, start, RangeLines::Nameless { until }, count);
            left -= count;
        }
        if left > 0 {
            let start = self.start(range.priority, line, now);
            ranges.push_for(range, start, RangeLines::Line(line), left);
        }
    }

    /// Notes what a claim got from fairness keys: up to which position each was read, and which have no
    /// more. Where the claim met jobs that are too late, other jobs of their key may stand behind them.
    fn note(&mut self, turns: &Turns, counts: &Found, is_full: bool, met_late: bool) {
        let Some(priority) = turns.of else { return };
        let now = Moment::now();
        let asked = &turns.portions[..turns.asked(counts, priority, is_full || met_late)];
        if let (true, Some((last, _))) = (turns.names_more, asked.last()) {
            self.ring(priority).served(last.clone());
        }
        for (n, (line, portion)) in asked.iter().enumerate() {
            let is_cut = is_full && n + 1 == asked.len();
            let (count, last) = counts.get(&(priority, line.clone())).copied().unwrap_or((0, FIRST));
            let nameless = self.nameless[usize::from(priority.level())].filter(|_| line.is_none());
            // Among jobs with the empty key, the position of those without any key is not known.
            if count > 0 && nameless.is_none() {
                self.took(priority, line, count.into(), last, now);
            }
            if count < *portion && !is_cut && !met_late {
                self.ring(priority).is_used_up(line);
                if line.is_none() {
                    self.nameless[usize::from(priority.level())] = None;
                }
            } else if let Some((left, until)) = nameless {
                let left = left.saturating_sub(count);
                self.nameless[usize::from(priority.level())] = Some((left, until)).filter(|_| left > 0);
            }
        }
    }
}

/// How many jobs of each fairness key a claim got, and the position of the last.
type Found = HashMap<(Priority, Line), (u32, Position)>;

fn read_counts(rows: &[Row]) -> StoreResult<Found> {
    let mut counts = Found::new();
    for row in rows {
        if let Some((priority, line, position)) = read_turn(row)? {
            let (count, last) = counts.entry((priority, line)).or_insert((0, position));
            (*count, *last) = (*count + 1, position.max(*last));
        }
    }
    Ok(counts)
}

/// Reads priority, fairness key and position of a claimed job; nothing if the row has no job.
fn read_turn(row: &Row) -> StoreResult<Option<(Priority, Line, Position)>> {
    let Some(id) = row.try_get::<_, Option<i64>>(FIRST_JOB_COLUMN)? else { return Ok(None) };
    let Ok(priority) = Priority::new(row.try_get::<_, i16>(FIRST_JOB_COLUMN + 3)?.into()) else {
        return Ok(None);
    };
    let due = row.try_get::<_, Instant>(FIRST_JOB_COLUMN + 6)?.0;
    let options = JobOptions::from_column(row.try_get(FIRST_JOB_COLUMN + super::row::OPTIONS_COLUMN)?);
    Ok(Some((priority, options.fairness_key, (due, JobId(id)))))
}

impl QueueClaim<'_> {
    /// Claims from the plain ranges of a queue in which jobs have fairness keys.
    pub(super) async fn by_turns(
        &self,
        store: &Store,
        tx: &Tx,
        left: &mut Left,
        group: &[ClaimRange],
        turns: &mut Turns,
    ) -> StoreResult<Vec<Row>> {
        let now = store.now_param();
        let (worker, token) = (Bits::from(self.request.worker), Bits::from(self.request.token));
        let (types, queue) = (type_texts(self.scope), self.scope.queue.as_str());
        let mut all: Vec<Row> = Vec::new();
        (turns.done, turns.rounds) = (0, 0);
        for _ in 0..ROUNDS_MAX {
            let Some(ranges) = self.next_ranges(store, left, group, turns) else { break };
            let (limit, skips_locked, spent) = (int4(left.room), left.skips_locked, left.spent);
            let head = self.head(&now, &worker, &token, &queue, &types, &limit, &false, &spent);
            let params: Vec<_> = head
                .into_iter()
                .chain(ranges.params())
                .chain([flag(&skips_locked)])
                .chain(ranges.whom())
                .collect();
            let rows = tx.query(&store.sql.claim_fairness_keys, &params).await?;
            if !self.tried_to_claim(&rows)? {
                // The statement claimed nothing under any key.
                all.extend(rows);
                break;
            }
            left.took(count_taken(&rows)?, false);
            let met_late = has_late(&rows)?;
            self.note_turns(store, turns, &read_counts(&rows)?, left.room == 0, met_late);
            all.extend(rows);
            if met_late || left.room == 0 {
                break;
            }
        }
        Ok(all)
    }

    fn note_turns(&self, store: &Store, turns: &Turns, counts: &Found, is_full: bool, met_late: bool) {
        let now = Moment::now();
        let mut claim_cursors = store.claim_cursors();
        let cursors = claim_cursors.of(self.scope, now);
        cursors.lines.note(turns, counts, is_full, met_late);
        // Jobs that were claimed from whole priorities came in plain order.
        for ((priority, _), (count, last)) in counts.iter().filter(|((of, _), _)| Some(*of) != turns.of) {
            cursors.took(*priority, (*count).into(), *last, now);
        }
        if let Some(priority) = turns.of {
            cursors.follow_lines(priority, now);
        }
    }

    fn next_ranges(
        &self,
        store: &Store,
        left: &Left,
        group: &[ClaimRange],
        turns: &mut Turns,
    ) -> Option<ClaimRanges> {
        let mut claim_cursors = store.claim_cursors();
        let (now, cursors) = (Moment::now(), claim_cursors.of(self.scope, Moment::now()));
        let starts: Vec<_> = group.iter().map(|range| cursors.start(range.priority, now)).collect();
        turns.next_ranges(&mut cursors.lines, &starts, group, left.room)
    }
}

#[cfg(test)]
mod tests;
