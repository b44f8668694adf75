//! Up to where claims have read. A claim that starts from the front walks over every row that runs or has ended since the
//! last vacuum, and under somebody's long transaction that is all of them; so it starts where the last one ended. A
//! position is only a hint: it stays a little behind, for transactions that commit late; whoever puts a job back behind
//! it says so; and a look from the very front comes about once a second. Where that has a long way to go, as over
//! thousands of jobs that run for an hour, it also tells claims what they need not walk over. Pure: time goes in as an
//! argument.

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

/// A position follows what was claimed at this distance in time…
const BEHIND_FOR: Duration = Duration::from_secs(2);
/// …unless that would be more than so many rows…
const BEHIND_ROWS: u64 = 1_000;
/// …or, after a shorter time, more than a few: a priority that is used up is walked over by every claim of those behind it.
const BEHIND_A_LITTLE: (Duration, u64) = (Duration::from_millis(250), 100);

/// What a look found is good for this long by the store's clock; boosting goes by ten minutes.
const HEADS_GOOD_FOR: Duration = Duration::from_secs(30);

/// A place in the order of one priority: a due time and a number.
pub(super) type Place = (Timestamp, JobId);

/// Before everything.
pub(super) const FIRST: Place = (Timestamp::from_micros(i64::MIN), JobId(0));

/// Where whoever is to meet this job next has to start.
pub(super) fn before(due: Timestamp, id: JobId) -> Place {
    (due, JobId(id.0.saturating_sub(1)))
}

/// Where whoever is to meet all jobs of this instant has to start.
pub(super) fn before_all(due: Timestamp) -> Place {
    (due, JobId(0))
}

/// Which claims share claim_cursors: those of one queue that ask for the same types. All types, if none are named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) queue: QueueName,
    pub(super) types: Option<Vec<TypeName>>,
}

/// Where claims of all scopes are.
#[derive(Debug, Default)]
pub(super) struct ClaimCursors(HashMap<Scope, Cursor>);

/// Where the claims of one scope are, by priority.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    cursors: [Lane; 11],
    /// The claims of this scope that are under way.
    pub(super) in_flight: InFlight,
    used_at: Option<Moment>,
    /// Whether another process has told of jobs, which no claim has found yet.
    notified: bool,
    /// When somebody looked from the very front, by the store's clock.
    looked_at: Option<Timestamp>,
    /// What lay ahead, and when.
    peek: Option<(NextDue, Moment)>,
    /// Where claims take turns, in the lines of fairness keys.
    pub(super) lines: Lines,
}

#[derive(Debug)]
pub(super) struct Lane {
    base: Place,
    recent: VecDeque<Mark>,
    taken: u64,
    /// The first due time of what waits, as far as anybody looked.
    head: Option<Timestamp>,
    /// When something was put back here.
    put_back_at: Option<Moment>,
}

impl Default for Lane {
    fn default() -> Self {
        Self { base: FIRST, recent: VecDeque::new(), taken: 0, head: None, put_back_at: None }
    }
}

/// What had been taken at some moment.
#[derive(Debug, Clone, Copy)]
struct Mark {
    place: Place,
    taken: u64,
    at: Moment,
}

impl ClaimCursors {
    /// Where the claims of a scope are.
    pub(super) fn of(&mut self, scope: &Scope, now: Moment) -> &mut Cursor {
        let cursors = self.0.entry(scope.clone()).or_default();
        cursors.used_at = Some(now);
        cursors
    }

    /// Jobs were put back: whoever has read past them reads there again.
    pub(super) fn put_back(
        &mut self,
        places: &[(QueueName, Priority, Place)],
        now: Moment,
        by_store: Timestamp,
    ) {
        for (queue, priority, place) in places {
            let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
            of_queue.for_each(|(_, cursors)| {
                cursors.lane(*priority).put_back(*place, now);
                cursors.lines.put_back(*priority, *place, by_store);
            });
        }
    }

    /// The same by others, who have noted it. What is met on the way there may bear the mark of a lock that nobody has any more; what
    /// this process has put back bears at most that of its writer.
    pub(super) fn put_back_by_others(
        &mut self,
        places: &[(QueueName, Priority, Place)],
        now: Moment,
        by_store: Timestamp,
    ) {
        self.put_back(places, now, by_store);
        let is_named = |scope: &Scope| places.iter().any(|(queue, ..)| *queue == scope.queue);
        let named = self.0.iter_mut().filter(|(scope, _)| is_named(scope));
        named.for_each(|(_, cursors)| cursors.in_flight.scan_all());
    }

    /// These can neither be claimed nor ended: claims go on behind them.
    pub(super) fn pass_by(&mut self, scopes: &[Scope], places: &[(QueueName, Priority, Line, Place)]) {
        for (queue, priority, line, place) in places {
            for scope in scopes.iter().filter(|scope| scope.queue == *queue) {
                let Some(cursors) = self.0.get_mut(scope) else { continue };
                cursors.lane(*priority).follow(*place);
                cursors.lines.pass_by(*priority, line, *place);
            }
        }
    }

    /// Something waits again in a queue, in some line.
    pub(super) fn told_lines(&mut self, queue: &QueueName) {
        let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
        of_queue.for_each(|(_, cursors)| cursors.lines.told());
    }

    /// These lines have something due.
    pub(super) fn found_lines(&mut self, found: &NewLines) {
        for (queue, priority, line) in found {
            let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
            of_queue.for_each(|(_, cursors)| cursors.lines.found(*priority, line.clone()));
        }
    }

    /// Another process told that there are jobs in a queue. They may have come in behind what was read: a transaction that
    /// was open for long, a job that was put back.
    pub(super) fn notified(&mut self, queue: &QueueName) {
        let of_queue = self.0.iter_mut().filter(|(scope, _)| scope.queue == *queue);
        of_queue.for_each(|(_, cursors)| cursors.notified = true);
    }

    /// A claim of these found nothing. Whether it was told that there is something.
    pub(super) fn take_told(&mut self, scopes: &[Scope]) -> bool {
        let mut is_any = false;
        for scope in scopes {
            let cursors = self.0.get_mut(scope);
            is_any |= cursors.is_some_and(|cursors| std::mem::take(&mut cursors.notified));
        }
        is_any
    }

    /// A look from the very front is about to be taken in.
    pub(super) fn looked(&mut self, scope: &Scope, at: Timestamp) {
        if let Some(cursors) = self.0.get_mut(scope) {
            cursors.looked_at = Some(at);
        }
    }

    /// What lay ahead in all of these, if it was looked at within this time.
    pub(super) fn remembered_outlook(
        &self,
        scopes: &[Scope],
        now: Moment,
        within: Duration,
    ) -> Option<NextDue> {
        let remembered = |scope: &Scope| {
            let (peek, at) = self.0.get(scope)?.peek?;
            (now.duration_since(at) <= within).then_some(peek)
        };
        scopes.iter().map(remembered).try_fold(NextDue::default(), |all, one| Some(join(all, one?)))
    }

    /// Keeps what lies ahead.
    pub(super) fn remember_outlooks(&mut self, scopes: &[Scope], ahead: &[NextDue], now: Moment) {
        for (scope, peek) in scopes.iter().zip(ahead) {
            if let Some(cursors) = self.0.get_mut(scope) {
                cursors.peek = Some((*peek, now));
            }
        }
    }

    /// The scopes whose claims came within this time.
    pub(super) fn in_use(&self, now: Moment, within: Duration) -> Vec<Scope> {
        let is_used = |cursors: &Cursor| cursors.used_at.is_some_and(|at| now.duration_since(at) <= within);
        self.0.iter().filter(|(_, cursors)| is_used(cursors)).map(|(scope, _)| scope.clone()).collect()
    }

    /// None is in use until it is claimed from again.
    pub(super) fn forget_uses(&mut self) {
        self.0.values_mut().for_each(|cursors| cursors.used_at = None);
    }

    /// What a look from the very front found first in a lane: claims start no later than there.
    pub(super) fn saw(&mut self, scope: &Scope, priority: Priority, first: Option<&(Place, Option<String>)>) {
        let Some(cursors) = self.0.get_mut(scope) else { return };
        let lane = cursors.lane(priority);
        lane.head = first.map(|((due, _), _)| *due);
        let Some((place @ (due, id), fairness_key)) = first else { return };
        if lane.rewind(before(*due, *id)) {
            // What was missed may bear the mark of a lock that nobody has any more.
            cursors.in_flight.scan_all();
        }
        // What others have missed is found by the look for lines.
        cursors.lines.saw(priority, *place, fairness_key.as_deref());
    }
}

/// A look from the very front that had a long way to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullScan {
    /// When it began.
    pub(super) began: Moment,
    /// The same by the store's clock.
    pub(super) at: Timestamp,
}

impl ClaimCursors {
    /// Claims need not walk over what a look walked over before it met the first that waits. What falls due about now is
    /// left to them: it may be on its way in.
    pub(super) fn advance(
        &mut self,
        scope: &Scope,
        priority: Priority,
        first: Option<Place>,
        look: FullScan,
    ) {
        let Some(cursors) = self.0.get_mut(scope) else { return };
        let latest = (look.at.minus(BEHIND_FOR), JobId(0));
        let before_first = first.map(|(due, id)| before(due, id));
        cursors.lane(priority).advance(before_first.map_or(latest, |place| place.min(latest)), look.began);
    }
}

impl Cursor {
    fn lane(&mut self, priority: Priority) -> &mut Lane {
        &mut self.cursors[usize::from(priority.level())]
    }

    /// Where a claim of a priority starts.
    pub(super) fn start(&mut self, priority: Priority, now: Moment) -> Place {
        self.lane(priority).start(now)
    }

    /// Whether a look was taken so lately that what it found still tells who has waited for long.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.looked_at.is_some_and(|at| now.since(at) <= HEADS_GOOD_FOR && at <= now)
    }

    /// The first due time in a lane, as far as anybody looked.
    pub(super) fn head(&self, priority: Priority) -> Option<Timestamp> {
        self.cursors[usize::from(priority.level())].head
    }

    /// A claim took so many of a priority, the last of them at this place.
    pub(super) fn took(&mut self, priority: Priority, count: u64, last: Place, now: Moment) {
        self.lane(priority).took(count, last, now);
    }

    /// Where claims go line by line, what all of them have read past need not be read again.
    pub(super) fn follow_lines(&mut self, priority: Priority, now: Moment) {
        if let Some(place) = self.lines.behind_all(priority, now) {
            self.lane(priority).follow(place);
        }
    }
}

impl Lane {
    pub(super) fn took(&mut self, count: u64, last: Place, now: Moment) {
        self.taken += count;
        if last > self.base && self.recent.back().is_none_or(|mark| last > mark.place) {
            self.recent.push_back(Mark { place: last, taken: self.taken, at: now });
        }
    }

    pub(super) fn follow(&mut self, to: Place) {
        self.base = self.base.max(to);
        while self.recent.front().is_some_and(|mark| mark.place <= self.base) {
            self.recent.pop_front();
        }
    }

    pub(super) fn start(&mut self, now: Moment) -> Place {
        while let Some(mark) = self.recent.front() {
            let (ago, rows) = (now.duration_since(mark.at), self.taken - mark.taken);
            let is_a_little_past = ago >= BEHIND_A_LITTLE.0 && rows >= BEHIND_A_LITTLE.1;
            let is_past = ago >= BEHIND_FOR || rows >= BEHIND_ROWS || is_a_little_past;
            if !is_past {
                break;
            }
            self.base = mark.place;
            self.recent.pop_front();
        }
        self.base
    }

    fn put_back(&mut self, before @ (due, _): Place, now: Moment) {
        self.rewind(before);
        self.put_back_at = self.put_back_at.max(Some(now));
        // It may have waited for longer than all that stayed.
        self.head = Some(self.head.map_or(due, |head| head.min(due)));
    }

    /// Not if something was put back since that look began: it may not have seen it.
    fn advance(&mut self, to: Place, look_began: Moment) {
        if to <= self.base || self.put_back_at.is_some_and(|at| at > look_began) {
            return;
        }
        self.base = to;
        while self.recent.front().is_some_and(|mark| mark.place <= to) {
            self.recent.pop_front();
        }
    }

    /// Tells whether it had been passed.
    pub(super) fn rewind(&mut self, to: Place) -> bool {
        let was_past = self.base > to;
        self.base = self.base.min(to);
        while self.recent.back().is_some_and(|mark| mark.place > to) {
            self.recent.pop_back();
        }
        was_past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Priority = Priority::NORMAL;

    fn at(micros: i64, id: i64) -> Place {
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
        claim_cursors.put_back(&[(scope().queue, NORMAL, at(50, 0))], start, Timestamp::EPOCH);
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(50, 1));
    }

    #[test]
    fn a_claim_that_finds_nothing_learns_once_that_it_was_told_of_something() {
        let (mut claim_cursors, now) = (ClaimCursors::default(), Moment::now());
        claim_cursors.of(&scope(), now);
        assert!(!claim_cursors.take_told(&[scope()]));
        claim_cursors.notified(&scope().queue);
        assert!(claim_cursors.take_told(&[scope()]));
        assert!(!claim_cursors.take_told(&[scope()]));
        claim_cursors.notified(&scope().queue);
        claim_cursors.looked(&scope(), Timestamp::EPOCH);
        assert!(claim_cursors.take_told(&[scope()]), "a look that was under way may not have seen it");
    }

    #[test]
    fn those_of_the_same_instant_before_what_is_put_back_are_not_read_again() {
        let (mut claim_cursors, now) = (ClaimCursors::default(), Moment::now());
        claim_cursors.of(&scope(), now).took(NORMAL, 2_000, at(100, 2_000), now);
        claim_cursors.of(&scope(), now).took(NORMAL, 1_000, at(100, 3_000), now);
        assert_eq!(claim_cursors.of(&scope(), now).start(NORMAL, now), at(100, 2_000));
        let back = before(Timestamp::from_micros(100), JobId(1_500));
        claim_cursors.put_back(&[(scope().queue, NORMAL, back)], now, Timestamp::EPOCH);
        assert_eq!(claim_cursors.of(&scope(), now).start(NORMAL, now), at(100, 1_499));
    }

    #[test]
    fn what_is_put_back_just_after_it_was_taken_is_not_passed_over_later() {
        let mut claim_cursors = ClaimCursors::default();
        let start = Moment::now();
        claim_cursors.of(&scope(), start).took(NORMAL, 1, at(100, 5), start);
        claim_cursors.put_back(&[(scope().queue, NORMAL, at(100, 0))], start, Timestamp::EPOCH);
        let later = start + BEHIND_FOR;
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(100, 5));
    }

    #[test]
    fn what_is_put_back_counts_among_those_who_have_waited_for_long() {
        let (mut claim_cursors, start) = (ClaimCursors::default(), Moment::now());
        claim_cursors.of(&scope(), start);
        claim_cursors.saw(&scope(), NORMAL, Some(&(at(200, 9), None)));
        claim_cursors.put_back(&[(scope().queue, NORMAL, at(50, 0))], start, Timestamp::EPOCH);
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
        claim_cursors.saw(&scope(), NORMAL, Some(&(at(200, 9), None)));
        assert_eq!(claim_cursors.of(&scope(), later).start(NORMAL, later), at(100, 5));
        claim_cursors.saw(&scope(), NORMAL, Some(&(at(60, 3), None)));
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(60, 3));
    }

    #[test]
    fn a_long_look_moves_claims_up_to_what_it_met_but_not_to_what_falls_due_about_now() {
        let (mut claim_cursors, began) = (ClaimCursors::default(), Moment::now());
        let second = 1_000_000;
        let look = FullScan { began, at: Timestamp::from_micros(100 * second) };
        claim_cursors.of(&scope(), began);
        claim_cursors.advance(&scope(), NORMAL, Some(at(50 * second, 9)), look);
        assert_eq!(claim_cursors.of(&scope(), began).start(NORMAL, began), at(50 * second, 8));
        claim_cursors.advance(&scope(), NORMAL, None, look);
        assert_eq!(claim_cursors.of(&scope(), began).start(NORMAL, began), at(98 * second, 0));
        claim_cursors.advance(&scope(), NORMAL, Some(at(500 * second, 10)), look);
        assert_eq!(
            claim_cursors.of(&scope(), began).start(NORMAL, began),
            at(98 * second, 0),
            "new jobs come before it"
        );
    }

    #[test]
    fn what_is_put_back_while_a_long_look_is_under_way_is_not_passed_over() {
        let (mut claim_cursors, began) = (ClaimCursors::default(), Moment::now());
        let look = FullScan { began, at: Timestamp::from_micros(100_000_000) };
        claim_cursors.of(&scope(), began);
        let later = began + Duration::from_millis(1);
        claim_cursors.put_back(&[(scope().queue, NORMAL, at(50, 0))], later, Timestamp::EPOCH);
        claim_cursors.advance(&scope(), NORMAL, None, look);
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) < at(50, 1));
        // The next one has seen it, and that it was taken.
        claim_cursors.advance(&scope(), NORMAL, None, FullScan { began: later, ..look });
        assert!(claim_cursors.of(&scope(), later).start(NORMAL, later) > at(50, 1));
    }
}
