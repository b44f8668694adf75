use super::*;

mod reading;
mod refusals;
mod ticking;
mod clock_changes;
mod catching_up;
mod filling;
mod in_words;
mod random;

/// Parses a schedule that is valid in this test.
fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the next ticks by the clocks of the schedule's zone.
fn next(text: &str, from: &str, count: usize) -> Vec<String> {
    next_without(&Holidays::default(), text, from, count)
}

fn next_without(holidays: &Holidays, text: &str, from: &str, count: usize) -> Vec<String> {
    let schedule = schedule(text);
    schedule.ticks_after(at(from), holidays).take(count).map(|tick| schedule.zone().reading(tick)).collect()
}
