//! Fairness keys, scans for them, and turns, without a store.

use super::super::claim_cursor::before_all;
use super::turns::LINES_NAMED_MIN;
use super::*;

fn line(name: &str) -> Line {
    Some(FairnessKey::parse(name).unwrap())
}

fn range(level: i64) -> ClaimRange {
    let (priority, until) = (Priority::new(level).unwrap(), Timestamp::from_micros(9));
    ClaimRange { priority, after: None, until, boosted: false }
}

#[test]
fn lines_of_a_priority_are_asked_until_they_have_nothing_and_then_all_of_it_and_the_next() {
    let group = [0, 1, 2].map(range);
    let (mut lines, mut turns) = (Lines::default(), Turns::default());
    lines.found(group[1].priority, line("a"));
    lines.found(group[1].priority, line("b"));
    let starts = [FIRST; 3];
    let ranges = turns.next_ranges(&mut lines, &starts, &group, 10).unwrap();
    assert_eq!(ranges.entries(), [(0, None, 10), (1, Some("a"), 5), (1, Some("b"), 5)]);
    lines.ring(group[1].priority).is_used_up(&line("a"));
    let ranges = turns.next_ranges(&mut lines, &starts, &group, 4).unwrap();
    assert_eq!(ranges.entries(), [(1, Some("b"), 4)]);
    lines.ring(group[1].priority).is_used_up(&line("b"));
    let ranges = turns.next_ranges(&mut lines, &starts, &group, 2).unwrap();
    assert_eq!(ranges.entries(), [(1, None, 2), (2, None, 2)]);
    assert!(turns.next_ranges(&mut lines, &starts, &group, 2).is_none());
}

#[test]
fn lines_are_looked_for_at_first_a_few_times_a_second_and_when_something_was_put_back() {
    let (start, store) = (Moment::now(), Timestamp::from_micros(1));
    let mut lines = Lines::default();
    assert!(lines.wants_scan(start, store));
    let took = Duration::from_millis(1);
    lines.begin_scan(start);
    assert!(!lines.wants_scan(start, store), "a scan is under way");
    lines.end_scan(start - took, start, store);
    lines.found(Priority::NORMAL, line("a"));
    let at = |millis| start + Duration::from_millis(millis);
    assert!(!lines.wants_scan(at(50), store));
    assert!(lines.wants_scan(at(100), store));
    assert!(lines.wants_scan(at(50), store.plus(Duration::from_secs(60))), "the store's clock was moved");
    lines.requeued(Priority::NORMAL, before_all(store.plus(took)), store);
    assert!(!lines.wants_scan(at(1), store), "the job is not due");
    lines.requeued(Priority::NORMAL, before_all(store), store);
    assert!(lines.wants_scan(at(1), store));
}

#[test]
fn scans_take_a_twentieth_of_the_time_whatever_they_take_and_whatever_hints_come() {
    let (start, store) = (Moment::now(), Timestamp::from_micros(1));
    let mut lines = Lines::default();
    lines.found(Priority::NORMAL, line("a"));
    lines.begin_scan(start);
    lines.end_scan(start, start + Duration::from_secs(30), store);
    let wants = |lines: &Lines, secs| {
        lines.wants_scan(start + Duration::from_secs(30 + secs), store.plus(Duration::from_secs(secs)))
    };
    assert!(!wants(&lines, 599) && wants(&lines, 600), "also a failed scan has taken its time");
    lines.notify();
    assert!(
        !wants(&lines, 594) && wants(&lines, 596),
        "after a notification the scan comes only a little sooner"
    );
    lines.notified = false;
    lines.ring(Priority::NORMAL).looked_up_to(line("a"));
    assert!(!wants(&lines, 594) && wants(&lines, 596), "and so does the next page");
}

#[test]
fn a_claim_with_little_room_names_many_lines_and_goes_on_behind_the_one_that_had_something() {
    let (priority, mut lines, mut turns) = (Priority::NORMAL, Lines::default(), Turns::default());
    let group = [range(i64::from(priority.level()))];
    for n in 0..40 {
        lines.found(priority, line(&format!("s{n:02}")));
    }
    let ranges = turns.next_ranges(&mut lines, &[FIRST], &group, 1).unwrap();
    assert_eq!(ranges.entries().len(), LINES_NAMED_MIN);
    let position = (Timestamp::from_micros(5), JobId(5));
    let counts = Found::from([((priority, line("s02")), (1, position))]);
    lines.note(&turns, &counts, true, false);
    let known = lines.ring(priority).lines().count();
    assert_eq!(known, 38, "two had nothing, and those behind are unknown");
    assert_eq!(lines.ring(priority).next(1), [line("s03")]);
    turns.rounds = ROUNDS_MAX - 1;
    let ranges = turns.next_ranges(&mut lines, &[FIRST], &group, 1).unwrap();
    assert_eq!(ranges.entries(), [(i16::from(priority.level()), None, 1)], "the last round takes any key");
}

#[test]
fn only_the_line_steps_back_in_which_something_was_missed() {
    let (now, mut lines) = (Moment::now(), Lines::default());
    let later = now + Duration::from_secs(3);
    let position = (Timestamp::from_micros(70), JobId(7));
    for name in ["a", "b"] {
        lines.took(Priority::NORMAL, &line(name), 5, position, now);
        assert_eq!(lines.start(Priority::NORMAL, &line(name), later), position);
    }
    let missed = (Timestamp::from_micros(20), JobId(2));
    lines.rewind(Priority::NORMAL, &line("b"), missed);
    assert_eq!(lines.start(Priority::NORMAL, &line("a"), later), position);
    assert_eq!(lines.start(Priority::NORMAL, &line("b"), later), missed);
}

#[test]
fn lines_are_read_from_the_very_front_now_and_then_all_pages_of_a_tour() {
    let (start, mut lines) = (Moment::now(), Lines::default());
    let scans_all = |lines: &mut Lines, millis| {
        lines.begin_scan(start + Duration::from_millis(millis));
        lines.scans_all
    };
    assert!(scans_all(&mut lines, 0) && !scans_all(&mut lines, 1_900));
    assert!(scans_all(&mut lines, 2_000));
    lines.ring(Priority::NORMAL).looked_up_to(line("a"));
    assert!(scans_all(&mut lines, 2_100), "the next page");
    lines.ring(Priority::NORMAL).looked_up_to(None);
    assert!(!scans_all(&mut lines, 2_200));
}

#[test]
fn a_line_is_read_from_where_its_claims_are_and_again_from_where_something_was_put_back() {
    let (now, mut lines) = (Moment::now(), Lines::default());
    let later = now + Duration::from_secs(3);
    let position = (Timestamp::from_micros(70), JobId(7));
    lines.took(Priority::NORMAL, &line("a"), 5, position, now);
    assert_eq!(lines.start(Priority::NORMAL, &line("a"), later), position);
    assert_eq!(lines.start(Priority::NORMAL, &line("b"), later), FIRST);
    assert_eq!(lines.behind_all(Priority::NORMAL, later), None, "no key is known to have jobs");
    lines.found(Priority::NORMAL, line("a"));
    assert_eq!(lines.behind_all(Priority::NORMAL, later), Some(position));
    lines.requeued(Priority::NORMAL, before_all(Timestamp::from_micros(50)), Timestamp::from_micros(90));
    assert!(lines.start(Priority::NORMAL, &line("a"), later) < (Timestamp::from_micros(50), JobId(1)));
    lines.found(Priority::NORMAL, line("b"));
    assert_eq!(lines.behind_all(Priority::NORMAL, later), Some(FIRST));
    lines.ring(Priority::NORMAL).looked_up_to(line("b"));
    assert_eq!(lines.behind_all(Priority::NORMAL, later), None, "there may be more keys");
}
