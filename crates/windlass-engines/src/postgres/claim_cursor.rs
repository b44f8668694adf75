//! The claim cursors: up to which position claims have read.
//!
//! A claim that starts at the front of the index walks over every row that runs or has ended since the last
//! vacuum. Under a long transaction of another session, these are all such rows. So a claim starts where
//! the last claim ended.
//!
//! A cursor is only a hint. It stays a little behind, for transactions that commit late. A process that
//! requeues a job behind the cursor reports it. A scan from the very front comes about once a second. Where
//! that scan has a long way to go, as over thousands of jobs that run for an hour, it also reports to
//! claims which rows they can skip.
//!
//! The module is pure: time goes in as an argument.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant as Moment};

use windlass_core::claim::NextDue;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::Line;
use windlass_core::job::JobId;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::priority::Priority;

use super::fairness_keys::{Lines, NewLines};
use super::inflight_claims::InFlight;
use super::peek::join;

/// A cursor follows what was claimed at this distance in time…
const BEHIND_FOR: Duration = Duration::from_secs(2);
/// …unless that would be more than this number of rows…
const BEHIND_ROWS: u64 = 1_000;
/// …or, after a shorter time, more than a few rows: every claim of the less urgent priorities walks over a
/// priority that is used up.
const BEHIND_A_LITTLE: (Duration, u64) = (Duration::from_millis(250), 100);

/// The result of a scan is valid for this long by the store's clock; boosting counts in steps of ten
/// minutes.
const SCAN_VALID_FOR: Duration = Duration::from_secs(30);

/// A position in the order of one priority: a due time and a job id.
pub(super) type Position = (Timestamp, JobId);

/// The position before every job.
pub(super) const FIRST: Position = (Timestamp::from_micros(i64::MIN), JobId(0));

/// The position from which a claim has to start in order to meet this job next.
pub(super) fn before(due: Timestamp, id: JobId) -> Position {
    (due, JobId(id.0.saturating_sub(1)))
}

/// The position from which a claim has to start in order to meet all jobs of this instant.
pub(super) fn before_all(due: Timestamp) -> Position {
    (due, JobId(0))
}

/// The scope of a set of claim cursors: claims of one queue that ask for the same types. `None` means all
/// types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) queue: QueueName,
    pub(super) types: Option<Vec<TypeName>>,
}

/// The claim cursors of all scopes.
#[derive(Debug, Default)]
pub(super) struct ClaimCursors(HashMap<Scope, ScopeCursors>);

/// The claim cursors of one scope, by priority.
#[derive(Debug, Default)]
pub(super) struct ScopeCursors {
    cursors: [ClaimCursor; 11],
    /// The claims of this scope that are in flight.
    pub(super) in_flight: InFlight,
    used_at: Option<Moment>,
    /// Whether another process has notified this one of jobs that no claim has found yet.
    notified: bool,
    /// When a scan last started at the very front, by the store's clock.
    scanned_at: Option<Timestamp>,
    /// The last peek, and when it was made.
    peek: Option<(NextDue, Moment)>,
    /// The claim cursors of the fairness keys, which take turns.
    pub(super) lines: Lines,
}

#[derive(Debug)]
pub(super) struct ClaimCursor {
    base: Position,
    recent: VecDeque<Snapshot>,
    taken: u64,
    /// The first due time of the waiting jobs, as far as scans have seen.
    head: Option<Timestamp>,
    /// When a job was last requeued here.
    requeued_at: Option<Moment>,
}

impl Default for ClaimCursor {
    fn default() -> Self {
        Self { base: FIRST, recent: VecDeque::new(), taken: 0, head: None, requeued_at: None }
    }
}

/// How many jobs had been claimed, and up to which position, at some moment.
#[derive(Debug, Clone, Copy)]
struct Snapshot {
    position: Position,
    taken: u64,
    at: Moment,
}

impl ClaimCursors {
    /// The claim cursors of a scope.
    pub(super) fn of(&mut self, scope: &Scope, now: Moment) -> &mut ScopeCursors {
        let cursors = self.0.entry(scope.clone()).or_default();
        cursors.used_at = Some(now);
        cursors
    }

    /// Moves the cursors back to requeued jobs, so that claims that have read past them read there again.
    pub(super) fn requeued(
        &mut self,
        positions: &[(QueueName, Priority, Position)],
        now: Moment,
        by_store: Timestamp,
    ) {
        for (queue, priority, position) in positions {
            let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
            of_queue.for_each(|(_, cursors)| {
                cursors.cursor(*priority).requeued(*position, now);
                cursors.lines.requeued(*priority, *position, by_store);
            });
        }
    }

    /// Moves the cursors back to jobs that other processes have requeued and recorded. The rows in between
    /// may bear the mark of a lock that no transaction holds any more, so the next claim tries all of them.
    /// A row that this process has requeued bears at most the lock mark of its own writer.
    pub(super) fn requeued_by_others(
        &mut self,
        positions: &[(QueueName, Priority, Position)],
        now: Moment,
        by_store: Timestamp,
    ) {
        self.requeued(positions, now, by_store);
        let is_named = |scope: &Scope| positions.iter().any(|(queue, ..)| *queue == scope.queue);
        let named = self.0.iter_mut().filter(|(scope, _)| is_named(scope));
        named.for_each(|(_, cursors)| cursors.in_flight.scan_all());
    }

    /// Moves the cursors past jobs that can neither be claimed nor ended, so that claims go on behind them.
    pub(super) fn skip_stuck(
        &mut self,
        scopes: &[Scope],
        positions: &[(QueueName, Priority, Line, Position)],
    ) {
        for (queue, priority, line, position) in positions {
            for scope in scopes.iter().filter(|scope| scope.queue == *queue) {
                let Some(cursors) = self.0.get_mut(scope) else { continue };
                cursors.cursor(*priority).follow(*position);
                cursors.lines.skip_stuck(*priority, line, *position);
            }
        }
    }

    /// Notes that a job waits again in a queue, under an unknown fairness key.
    pub(super) fn notified_of_unknown_key(&mut self, queue: &QueueName) {
        let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
        of_queue.for_each(|(_, cursors)| cursors.lines.notify());
    }

    /// Adds fairness keys that have something due.
    pub(super) fn found_fairness_keys(&mut self, found: &NewLines) {
        for (queue, priority, line) in found {
            let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
            of_queue.for_each(|(_, cursors)| cursors.lines.found(*priority, line.clone()));
        }
    }

    /// Notes that another process announced jobs in a queue. They may have come in behind the cursor: from
    /// a transaction that was open for long, or as a requeued job.
    pub(super) fn notified(&mut self, queue: &QueueName) {
        let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
        of_queue.for_each(|(_, cursors)| cursors.notified = true);
    }

    /// Returns whether these scopes were notified of jobs, and clears the note. A claim of them found
    /// nothing.
    pub(super) fn take_notified(&mut self, scopes: &[Scope]) -> bool {
        let mut is_any = false;
        for scope in scopes {
            let cursors = self.0.get_mut(scope);
            is_any |= cursors.is_some_and(|cursors| std::mem::take(&mut cursors.notified));
        }
        is_any
    }

    /// Notes the time of a scan from the very front whose result is about to be stored.
    pub(super) fn scanned(&mut self, scope: &Scope, at: Timestamp) {
        if let Some(cursors) = self.0.get_mut(scope) {
            cursors.scanned_at = Some(at);
        }
    }

    /// Returns the joined peek of all these scopes, if each was made within this time.
    pub(super) fn cached_peek(&self, scopes: &[Scope], now: Moment, within: Duration) -> Option<NextDue> {
        let remembered = |scope: &Scope| {
            let (peek, at) = self.0.get(scope)?.peek?;
            (now.duration_since(at) <= within).then_some(peek)
        };
        scopes.iter().map(remembered).try_fold(NextDue::default(), |all, one| Some(join(all, one?)))
    }

    /// Remembers a peek of each scope.
    pub(super) fn cache_peeks(&mut self, scopes: &[Scope], ahead: &[NextDue], now: Moment) {
        for (scope, peek) in scopes.iter().zip(ahead) {
            if let Some(cursors) = self.0.get_mut(scope) {
                cursors.peek = Some((*peek, now));
            }
        }
    }

    /// The scopes that were claimed from within this time.
    pub(super) fn in_use(&self, now: Moment, within: Duration) -> Vec<Scope> {
        let is_used =
            |cursors: &ScopeCursors| cursors.used_at.is_some_and(|at| now.duration_since(at) <= within);
        self.0.iter().filter(|(_, cursors)| is_used(cursors)).map(|(scope, _)| scope.clone()).collect()
    }

    /// Marks all scopes as unused until the next claim from them.
    pub(super) fn forget_uses(&mut self) {
        self.0.values_mut().for_each(|cursors| cursors.used_at = None);
    }

    /// Takes the first waiting job that a scan from the very front found in a priority: claims start no
    /// later than there.
    pub(super) fn found_first(
        &mut self,
        scope: &Scope,
        priority: Priority,
        first: Option<&(Position, Option<String>)>,
    ) {
        let Some(cursors) = self.0.get_mut(scope) else { return };
        let cursor = cursors.cursor(priority);
        cursor.head = first.map(|((due, _), _)| *due);
        let Some((position @ (due, id), fairness_key)) = first else { return };
        if cursor.rewind(before(*due, *id)) {
            // The row that was missed may bear the mark of a lock that no transaction holds any more.
            cursors.in_flight.scan_all();
        }
        // Rows that claims of other fairness keys have missed are found by the scan for fairness keys.
        cursors.lines.found_first(priority, *position, fairness_key.as_deref());
    }
}

/// A scan from the very front that had a long way to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullScan {
    /// When the scan began.
    pub(super) began: Moment,
    /// The same moment by the store's clock.
    pub(super) at: Timestamp,
}

impl ClaimCursors {
    /// Moves a cursor over the rows that a scan walked over before it met the first waiting job. Rows that
    /// fall due about now are left to claims: a transaction may be about to commit them.
    pub(super) fn advance(
        &mut self,
        scope: &Scope,
        priority: Priority,
        first: Option<Position>,
        scan: FullScan,
    ) {
        let Some(cursors) = self.0.get_mut(scope) else { return };
        let latest = (scan.at.minus(BEHIND_FOR), JobId(0));
        let before_first = first.map(|(due, id)| before(due, id));
        cursors
            .cursor(priority)
            .advance(before_first.map_or(latest, |position| position.min(latest)), scan.began);
    }
}

impl ScopeCursors {
    fn cursor(&mut self, priority: Priority) -> &mut ClaimCursor {
        &mut self.cursors[usize::from(priority.level())]
    }

    /// The position at which a claim of a priority starts.
    pub(super) fn start(&mut self, priority: Priority, now: Moment) -> Position {
        self.cursor(priority).start(now)
    }

    /// Whether the last scan is so recent that its first due times still say which jobs have waited for
    /// long.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.scanned_at.is_some_and(|at| now.since(at) <= SCAN_VALID_FOR && at <= now)
    }

    /// The first due time of a priority, as far as scans have seen.
    pub(super) fn head(&self, priority: Priority) -> Option<Timestamp> {
        self.cursors[usize::from(priority.level())].head
    }

    /// Notes that a claim took this number of jobs of a priority, the last of them at this position.
    pub(super) fn took(&mut self, priority: Priority, count: u64, last: Position, now: Moment) {
        self.cursor(priority).took(count, last, now);
    }

    /// Moves the cursor of a priority up to the position that the claims of all its fairness keys have read
    /// past.
    pub(super) fn follow_lines(&mut self, priority: Priority, now: Moment) {
        if let Some(position) = self.lines.behind_all(priority, now) {
            self.cursor(priority).follow(position);
        }
    }
}

impl ClaimCursor {
    pub(super) fn took(&mut self, count: u64, last: Position, now: Moment) {
        self.taken += count;
        if last > self.base && self.recent.back().is_none_or(|snapshot| last > snapshot.position) {
            self.recent.push_back(Snapshot { position: last, taken: self.taken, at: now });
        }
    }

    pub(super) fn follow(&mut self, to: Position) {
        self.base = self.base.max(to);
        while self.recent.front().is_some_and(|snapshot| snapshot.position <= self.base) {
            self.recent.pop_front();
        }
    }

    pub(super) fn start(&mut self, now: Moment) -> Position {
        while let Some(snapshot) = self.recent.front() {
            let (ago, rows) = (now.duration_since(snapshot.at), self.taken - snapshot.taken);
            let is_a_little_past = ago >= BEHIND_A_LITTLE.0 && rows >= BEHIND_A_LITTLE.1;
            let is_past = ago >= BEHIND_FOR || rows >= BEHIND_ROWS || is_a_little_past;
            if !is_past {
                break;
            }
            self.base = snapshot.position;
            self.recent.pop_front();
        }
        self.base
    }

    fn requeued(&mut self, before @ (due, _): Position, now: Moment) {
        self.rewind(before);
        self.requeued_at = self.requeued_at.max(Some(now));
        // The job may have waited for longer than all that stayed.
        self.head = Some(self.head.map_or(due, |head| head.min(due)));
    }

    /// Does nothing if a job was requeued since the scan began: the scan may not have seen it.
    fn advance(&mut self, to: Position, scan_began: Moment) {
        if to <= self.base || self.requeued_at.is_some_and(|at| at > scan_began) {
            return;
        }
        self.base = to;
        while self.recent.front().is_some_and(|snapshot| snapshot.position <= to) {
            self.recent.pop_front();
        }
    }

    /// Returns whether the cursor had passed that position.
    pub(super) fn rewind(&mut self, to: Position) -> bool {
        let was_past = self.base > to;
        self.base = self.base.min(to);
        while self.recent.back().is_some_and(|snapshot| snapshot.position > to) {
            self.recent.pop_back();
        }
        was_past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Priority = Priority::NORMAL;

    fn at(micros: i64, id: i64) -> Position {
        (Timestamp::from_micros(micros), JobId(id))
    }

    fn scope() -> Scope {
        Scope { queue: QueueName::parse("main").unwrap(), types: None }
    }

    #[test]
    fn a_fresh_claim_starts_at_the_front() {
        assert_eq!(ClaimCursors::default().of(&scope(), Moment::now()).start(NORMAL, Moment::now()), FIRST);
    }

    #[test]
    fn a_position_stays_two_seconds_behind_what_was_taken() {
        let mut claim_cursors = ClaimCursors::default();
        let start = Moment::now();
        let cursors = claim_cursors.of(&scope(), start);
        cursors.took(NORMAL, 5, at(100, 5), start);
        assert_eq!(cursors.start(NORMAL, start + Duration::from_secs(1)), FIRST);
        assert_eq!(cursors.start(NORMAL, start + BEHIND_FOR), at(100, 5));
    }

    #[test]
    fn a_position_is_never_more_than_a_thousand_rows_behind() {
        let mut claim_cursors = ClaimCursors::default();
        let now = Moment::now();
        let cursors = claim_cursors.of(&scope(), now);
        cursors.took(NORMAL, 700, at(100, 700), now);
        cursors.took(NORMAL, 700, at(200, 1400), now);
        assert_eq!(cursors.start(NORMAL, now), FIRST, "700 rows are not too many");
        cursors.took(NORMAL, 700, at(300, 2100), now);
        assert_eq!(cursors.start(NORMAL, now), at(100, 700));
    }

    #[test]
    fn what_is_put_back_is_read_again() {
        let mut claim_cursors = ClaimCursors::default();
        let start = Moment::now();
        claim_cursors.of(&scope(), start).took(NORMAL, 5, at(100, 5), start);
        let later = start + BEHIND_FOR;
        assert_eq!(claim_cursors.of(&scope(), later).start(NORMAL, later), at(100, 5));
        claim_cursors.requeued(&[(scope().queue, NORMAL, at(50, 0))], start, Timestamp::EPOCH);
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(50, 1));
    }

    #[test]
    fn a_claim_that_finds_nothing_learns_once_that_it_was_told_of_something() {
        let (mut claim_cursors, now) = (ClaimCursors::default(), Moment::now());
        claim_cursors.of(&scope(), now);
        assert!(!claim_cursors.take_notified(&[scope()]));
        claim_cursors.notified(&scope().queue);
        assert!(claim_cursors.take_notified(&[scope()]));
        assert!(!claim_cursors.take_notified(&[scope()]));
        claim_cursors.notified(&scope().queue);
        claim_cursors.scanned(&scope(), Timestamp::EPOCH);
        assert!(claim_cursors.take_notified(&[scope()]), "a scan that was under way may not have seen it");
    }

    #[test]
    fn those_of_the_same_instant_before_what_is_put_back_are_not_read_again() {
        let (mut claim_cursors, now) = (ClaimCursors::default(), Moment::now());
        claim_cursors.of(&scope(), now).took(NORMAL, 2_000, at(100, 2_000), now);
        claim_cursors.of(&scope(), now).took(NORMAL, 1_000, at(100, 3_000), now);
        assert_eq!(claim_cursors.of(&scope(), now).start(NORMAL, now), at(100, 2_000));
        let back = before(Timestamp::from_micros(100), JobId(1_500));
        claim_cursors.requeued(&[(scope().queue, NORMAL, back)], now, Timestamp::EPOCH);
        assert_eq!(claim_cursors.of(&scope(), now).start(NORMAL, now), at(100, 1_499));
    }

    #[test]
    fn what_is_put_back_just_after_it_was_taken_is_not_passed_over_later() {
        let mut claim_cursors = ClaimCursors::default();
        let start = Moment::now();
        claim_cursors.of(&scope(), start).took(NORMAL, 1, at(100, 5), start);
        claim_cursors.requeued(&[(scope().queue, NORMAL, at(100, 0))], start, Timestamp::EPOCH);
        let later = start + BEHIND_FOR;
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(100, 5));
    }

    #[test]
    fn what_is_put_back_counts_among_those_who_have_waited_for_long() {
        let (mut claim_cursors, start) = (ClaimCursors::default(), Moment::now());
        claim_cursors.of(&scope(), start);
        claim_cursors.found_first(&scope(), NORMAL, Some(&(at(200, 9), None)));
        claim_cursors.requeued(&[(scope().queue, NORMAL, at(50, 0))], start, Timestamp::EPOCH);
        let head = claim_cursors.of(&scope(), Moment::now()).head(NORMAL);
        assert_eq!(head, Some(Timestamp::from_micros(50)));
    }

    #[test]
    fn a_look_that_finds_something_behind_steps_back_and_one_that_does_not_changes_nothing() {
        let mut claim_cursors = ClaimCursors::default();
        let start = Moment::now();
        claim_cursors.of(&scope(), start).took(NORMAL, 5, at(100, 5), start);
        let later = start + BEHIND_FOR;
        claim_cursors.of(&scope(), later).start(NORMAL, later);
        claim_cursors.found_first(&scope(), NORMAL, Some(&(at(200, 9), None)));
        assert_eq!(claim_cursors.of(&scope(), later).start(NORMAL, later), at(100, 5));
        claim_cursors.found_first(&scope(), NORMAL, Some(&(at(60, 3), None)));
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(60, 3));
    }

    #[test]
    fn a_long_look_moves_claims_up_to_what_it_met_but_not_to_what_falls_due_about_now() {
        let (mut claim_cursors, began) = (ClaimCursors::default(), Moment::now());
        let second = 1_000_000;
        let scan = FullScan { began, at: Timestamp::from_micros(100 * second) };
        claim_cursors.of(&scope(), began);
        claim_cursors.advance(&scope(), NORMAL, Some(at(50 * second, 9)), scan);
        assert_eq!(claim_cursors.of(&scope(), began).start(NORMAL, began), at(50 * second, 8));
        claim_cursors.advance(&scope(), NORMAL, None, scan);
        assert_eq!(claim_cursors.of(&scope(), began).start(NORMAL, began), at(98 * second, 0));
        claim_cursors.advance(&scope(), NORMAL, Some(at(500 * second, 10)), scan);
        assert_eq!(
            claim_cursors.of(&scope(), began).start(NORMAL, began),
            at(98 * second, 0),
            "new jobs come before it"
        );
    }

    #[test]
    fn what_is_put_back_while_a_long_look_is_under_way_is_not_passed_over() {
        let (mut claim_cursors, began) = (ClaimCursors::default(), Moment::now());
        let scan = FullScan { began, at: Timestamp::from_micros(100_000_000) };
        claim_cursors.of(&scope(), began);
        let later = began + Duration::from_millis(1);
        claim_cursors.requeued(&[(scope().queue, NORMAL, at(50, 0))], later, Timestamp::EPOCH);
        claim_cursors.advance(&scope(), NORMAL, None, scan);
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(50, 1));
        // The next scan has seen the job, and that it was claimed.
        claim_cursors.advance(&scope(), NORMAL, None, FullScan { began: later, ..scan });
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) > at(50, 1));
    }
}
