use std::time::Duration;

use proptest::prelude::*;

use super::roll_up::{Damage, roll_up};
use super::sample;
use super::watermark::Watermark;
use super::*;
use crate::limits::ROLL_UP_ROWS_MAX;

fn now() -> Timestamp {
    Timestamp::parse("2027-06-01T09:00:30Z").unwrap()
}

fn kind(name: &str) -> (QueueName, TypeName) {
    (QueueName::parse("main").unwrap(), TypeName::parse(name).unwrap())
}

fn totals(enqueued: u64, succeeded: u64) -> Totals {
    Totals { enqueued, succeeded, ..Totals::default() }
}

fn marked(version: u64, totals: &[(&str, Totals)]) -> StoredWatermark {
    let watermark = Watermark(totals.iter().map(|(name, totals)| (kind(name), *totals)).collect());
    StoredWatermark { version, text: watermark.encode() }
}

fn rollup_input(watermark: Option<StoredWatermark>, totals: &[(&str, Totals)]) -> RollupInput {
    let totals = totals.iter().map(|(name, totals)| (kind(name), *totals)).collect();
    RollupInput { watermark, totals, samples: Vec::new(), more: false, now: now() }
}

fn seen(name: &str, started: u64) -> Seen {
    let (queue, job_type) = kind(name);
    let mut waits = Histogram::default();
    (0..started).for_each(|_| waits.record(Duration::from_millis(7)));
    Seen { queue, job_type, started, runs: waits.clone(), waits }
}

fn stored(id: u64, at: Timestamp, seen: &[Seen]) -> StoredSample {
    let text = Sample::parts(Duration::ZERO, seen).pop().unwrap().text;
    StoredSample { id, at, text }
}

fn key(at: Timestamp, name: &str) -> RollupKey {
    let (queue, job_type) = kind(name);
    RollupKey { minute: Minute::of(at), queue, job_type }
}

/// Returns the rows that a round writes to a store without rows.
fn rows_of(rollup_input: RollupInput) -> Vec<(RollupKey, Tally)> {
    let change = roll_up(rollup_input).expect("the round has something to add").onto(Vec::new());
    change.rows.into_iter().map(|row| (row.key, row.tally)).collect()
}

#[test]
fn a_watermark_with_a_number_too_few_or_too_many_is_not_read() {
    let watermark = Watermark::parse("main a 5 4 3 2 1 0\n").expect("it is whole");
    let totals = Totals { enqueued: 5, succeeded: 4, retried: 3, dead: 2, cancelled: 1, started_over: 0 };
    assert_eq!(watermark.0.get(&kind("a")), Some(&totals));
    assert_eq!(Watermark::parse(&watermark.encode()), Some(watermark));
    for wrong in ["main a 5 4 3 2 1\n", "main a 5 4 3 2 1 0 0\n"] {
        assert_eq!(Watermark::parse(wrong), None);
    }
}

#[test]
fn a_round_books_by_how_much_totals_have_grown_and_marks_them() {
    let watermark = marked(3, &[("a", totals(10, 4))]);
    let roll_up =
        roll_up(rollup_input(Some(watermark), &[("a", totals(12, 9)), ("b", totals(1, 0))])).unwrap();
    assert_eq!(roll_up.keys(), [key(now(), "a"), key(now(), "b")]);
    let change = roll_up.onto(Vec::new());
    let booked: Vec<_> = change.rows.iter().map(|row| (row.tally.enqueued, row.tally.succeeded)).collect();
    assert_eq!(booked, [(2, 5), (1, 0)]);
    assert_eq!((change.read, change.version > 3), (3, true));
    assert_eq!(change.watermark, marked(0, &[("a", totals(12, 9)), ("b", totals(1, 0))]).text);
}

#[test]
fn a_round_in_which_nothing_happened_changes_nothing() {
    let watermark = marked(3, &[("a", totals(10, 4))]);
    assert_eq!(roll_up(rollup_input(Some(watermark), &[("a", totals(10, 4))])), None);
    assert_eq!(roll_up(rollup_input(Some(marked(0, &[])), &[])), None);
}

#[test]
fn what_happened_before_the_first_roll_up_is_counted_nowhere() {
    let change = roll_up(rollup_input(None, &[("a", totals(10, 4))])).unwrap().onto(Vec::new());
    assert_eq!((change.read, change.rows.len()), (0, 0));
    assert_eq!(change.watermark, marked(0, &[("a", totals(10, 4))]).text);
}

#[test]
fn what_went_down_books_nothing_and_is_counted_on_from_there() {
    let watermark = marked(3, &[("a", totals(10, 4))]);
    let change = roll_up(rollup_input(Some(watermark), &[("a", totals(2, 5))])).unwrap().onto(Vec::new());
    assert_eq!((change.rows[0].tally.enqueued, change.rows[0].tally.succeeded), (0, 1));
    let next = StoredWatermark { version: change.version, text: change.watermark };
    assert_eq!(rows_of(rollup_input(Some(next), &[("a", totals(3, 5))]))[0].1.enqueued, 1);
}

#[test]
fn a_type_that_is_gone_is_forgotten_and_counts_from_nothing_when_it_is_back() {
    let watermark = marked(3, &[("a", totals(10, 4))]);
    let change = roll_up(rollup_input(Some(watermark), &[])).unwrap().onto(Vec::new());
    assert_eq!((change.rows.len(), change.watermark.as_str()), (0, ""));
    let next = StoredWatermark { version: change.version, text: change.watermark };
    assert_eq!(rows_of(rollup_input(Some(next), &[("a", totals(2, 0))]))[0].1.enqueued, 2);
}

#[test]
fn samples_go_to_their_own_rollups_and_onto_what_is_there() {
    let before = now().minus(Duration::from_secs(60));
    let samples = vec![
        stored(5, before, &[seen("a", 2)]),
        stored(6, before, &[seen("a", 3), seen("b", 1)]),
        stored(9, now(), &[seen("a", 1)]),
    ];
    let watermark = marked(3, &[("a", totals(10, 4))]);
    let given = RollupInput { samples, more: true, ..rollup_input(Some(watermark), &[("a", totals(11, 4))]) };
    let roll_up = roll_up(given).unwrap();
    assert!(roll_up.more);
    let kept = Rollup { key: key(before, "a"), tally: Tally { enqueued: 7, started: 4, ..Tally::default() } };
    let change = roll_up.onto(vec![kept]);
    let sums: Vec<_> = change
        .rows
        .iter()
        .map(|row| (row.key.clone(), row.tally.enqueued, row.tally.started, row.tally.waits.count()))
        .collect();
    assert_eq!(sums, [(key(before, "a"), 7, 9, 5), (key(before, "b"), 0, 1, 1), (key(now(), "a"), 1, 1, 1)]);
    assert_eq!(change.rolled_up, [5, 6, 9]);
}

#[test]
fn what_is_damaged_is_told_and_goes_and_stops_nothing() {
    let damaged = StoredSample { id: 1, at: now(), text: "main a 1 a1".to_owned() };
    let samples = vec![damaged, stored(2, now(), &[seen("a", 1)])];
    let watermark = StoredWatermark { version: 3, text: "main a ten".to_owned() };
    let roll_up =
        roll_up(RollupInput { samples, ..rollup_input(Some(watermark), &[("a", totals(10, 4))]) }).unwrap();
    let why = sample::SampleError { line: 1 };
    assert_eq!(roll_up.damaged, [Damage::Watermark, Damage::Sample { id: 1, why }]);
    let change = roll_up.onto(Vec::new());
    assert_eq!(
        (change.rolled_up.clone(), change.rows[0].tally.started, change.rows.len()),
        (vec![1, 2], 1, 1)
    );
    assert_eq!(change.rows[0].tally.enqueued, 0, "totals begin anew");
}

#[test]
fn more_than_a_round_takes_is_left_for_the_next_and_nothing_is_lost() {
    let names: Vec<_> = (0..ROLL_UP_ROWS_MAX + 5).map(|n| format!("t{n:04}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), totals(1, 0))).collect();
    let sample = stored(1, now(), &[seen("t0000", 1)]);
    let first =
        roll_up(RollupInput { samples: vec![sample.clone()], ..rollup_input(Some(marked(0, &[])), &all) })
            .unwrap();
    assert!(first.more);
    let change = first.onto(Vec::new());
    assert_eq!((change.rows.len(), change.rolled_up.len()), (ROLL_UP_ROWS_MAX, 0));
    let watermark = StoredWatermark { version: change.version, text: change.watermark };
    let second =
        roll_up(RollupInput { samples: vec![sample], ..rollup_input(Some(watermark), &all) }).unwrap();
    assert!(!second.more);
    let change = second.onto(Vec::new());
    assert_eq!((change.rows.len(), change.rolled_up.len()), (6, 1));
}

#[test]
fn a_sample_is_cut_into_parts_and_reads_back() {
    let all: Vec<_> = (0..3_000).map(|n| seen(&format!("type-with-a-rather-long-name-{n}"), 3)).collect();
    let parts = Sample::parts(Duration::from_secs(1), &all);
    assert!(parts.len() > 1);
    check_samples(&parts).unwrap();
    let back: Vec<_> = parts.iter().flat_map(|part| sample::parse(&part.text).unwrap()).collect();
    assert_eq!(back, all);
    assert!(Sample::parts(Duration::ZERO, &[]).is_empty());
}

#[test]
fn requests_that_no_store_takes_are_refused() {
    let sample = Sample { ago: Duration::ZERO, text: "x".repeat(SAMPLE_BYTES_MAX + 1) };
    assert!(check_samples(std::slice::from_ref(&sample)).unwrap_err().to_string().contains("65537"));
    let old = Sample { ago: Duration::MAX, text: String::new() };
    assert!(check_samples(&[old]).is_err());
    assert_eq!(Sample::parts(Duration::MAX, &[seen("a", 1)])[0].ago, crate::limits::SAMPLE_AGE_MAX);
    let many = vec![Sample { text: String::new(), ..sample }; SAMPLES_PER_CALL_MAX + 1];
    assert!(check_samples(&many).unwrap_err().to_string().contains("201"));
}

#[test]
fn a_report_adds_up_by_hour_and_day_and_in_all() {
    let row = |at: &str, enqueued| Rollup {
        key: key(Timestamp::parse(at).unwrap(), "a"),
        tally: Tally { enqueued, ..Tally::default() },
    };
    let rows =
        [row("2027-06-01T09:59:59Z", 1), row("2027-06-01T10:00:00Z", 2), row("2027-06-02T10:00:00Z", 4)];
    let sums = |by: By| -> Vec<_> {
        let mut report = Report::new(by);
        rows.iter().for_each(|row| report.add(row));
        assert_eq!(report.total().enqueued, 7);
        report.slots().map(|(at, tally)| (at.to_string(), tally.enqueued)).collect()
    };
    assert_eq!(sums(By::Minute).len(), 3);
    assert_eq!(sums(By::Hour)[0], ("2027-06-01T09:00:00.000Z".to_owned(), 1));
    assert_eq!(sums(By::Day)[0], ("2027-06-01T00:00:00.000Z".to_owned(), 3));
}

#[test]
fn a_range_that_is_none_or_too_fine_is_refused() {
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    assert!(matches!(By::Day.check(now(), now()), Err(RangeError::Empty { .. })));
    let error = By::Minute.check(now().minus(month), now()).unwrap_err().to_string();
    assert!(error.contains("43200") && error.contains("by hour or day"), "{error}");
    assert_eq!(By::Hour.check(now().minus(month), now()), Ok(()));
    let ends = (Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX));
    assert!(By::Day.check(ends.0, ends.1).is_err());
}

proptest! {
    /// However totals grow and whichever round is overtaken, the sum of the booked counts is the growth
    /// of the totals.
    #[test]
    fn rounds_of_any_length_book_all_that_totals_have_grown(steps in prop::collection::vec((0_u64..5, any::<bool>()), 1..40)) {
        let (mut watermark, mut grown, mut booked) = (marked(0, &[]), 0, 0);
        for (by, is_applied) in steps {
            grown += by;
            let Some(roll_up) = roll_up(rollup_input(Some(watermark.clone()), &[("a", totals(grown, 0))])) else { continue };
            let change = roll_up.onto(Vec::new());
            if is_applied {
                booked += change.rows.iter().map(|row| row.tally.enqueued).sum::<u64>();
                watermark = StoredWatermark { version: change.version, text: change.watermark };
            }
        }
        if let Some(roll_up) = roll_up(rollup_input(Some(watermark), &[("a", totals(grown, 0))])) {
            booked += roll_up.onto(Vec::new()).rows.iter().map(|row| row.tally.enqueued).sum::<u64>();
        }
        prop_assert_eq!(booked, grown);
    }

    #[test]
    fn no_text_makes_reading_a_sample_or_a_watermark_panic(text in "[a-z0-9 :,.\n]{0,60}|.{0,20}") {
        let _ = (sample::parse(&text), Watermark::parse(&text));
    }
}
