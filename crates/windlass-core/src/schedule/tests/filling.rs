//! Backfills of ranges that have passed.

use super::*;
use crate::limits::BACKFILL_MAX;

const NOW: &str = "2027-06-01T12:00:00Z";

fn ticks_of(text: &str, from: &str, to: &str) -> Result<Vec<String>, BackfillError> {
    let ticks = backfill(&schedule(text), &Holidays::default(), at(from), at(to), at(NOW))?;
    Ok(ticks.iter().map(|tick| tick.to_string()[11..19].to_owned()).collect())
}

#[test]
fn ranges_that_follow_each_other_share_no_tick() {
    let first = ticks_of("every 15m", "2027-06-01T09:00:00Z", "2027-06-01T09:30:00Z").unwrap();
    let second = ticks_of("every 15m", "2027-06-01T09:30:00Z", "2027-06-01T10:00:00Z").unwrap();
    assert_eq!(
        (first, second),
        (vec!["09:00:00".into(), "09:15:00".into()], vec!["09:30:00".into(), "09:45:00".into()])
    );
    assert_eq!(ticks_of("daily at 02:00", "2027-06-01T03:00:00Z", NOW).unwrap(), [""; 0]);
}

#[test]
fn a_range_that_is_empty_ahead_or_endless_is_refused() {
    let refusal = |text, from, to| ticks_of(text, from, to).unwrap_err();
    assert!(matches!(refusal("every 1h", NOW, NOW), BackfillError::Order { .. }));
    assert!(matches!(refusal("every 1h", NOW, "2027-05-01T00:00:00Z"), BackfillError::Order { .. }));
    assert!(matches!(
        refusal("every 1h", "2027-06-01T09:00:00Z", "2027-06-01T12:00:01Z"),
        BackfillError::Ahead { .. }
    ));
    assert!(matches!(refusal("@yearly", "1927-01-01T00:00:00Z", NOW), BackfillError::TooLong { .. }));
    let too_many = refusal("every 1s", "2027-06-01T00:00:00Z", NOW);
    assert_eq!(too_many, BackfillError::TooMany { reached: at("2027-06-01T02:46:39Z") });
    assert!(too_many.to_string().contains("02:46:39"), "{too_many}");
    let just_enough = ticks_of("every 1s", "2027-06-01T00:00:00Z", "2027-06-01T02:46:40Z");
    assert_eq!(just_enough.map(|ticks| ticks.len()), Ok(BACKFILL_MAX));
}
