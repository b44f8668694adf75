//! `windlass schedule next`: prints when a schedule would run, before it is stored.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use windlass_core::clock::{ParseInstantError, Timestamp};
use windlass_core::schedule::{ClockChange, Holidays, Schedule, Zone};
use windlass_core::span::show_span;

use crate::config::holidays_file;
use crate::exit::{Code, Failure};
use crate::output::{Output, printable};

/// The number of times that are printed by default.
const COUNT_DEFAULT: u32 = 10;
const COUNT_MAX: i64 = 1_000;
/// The maximum number of marked clock changes. Rare schedules have hundreds between two ticks.
const CHANGES_MAX: usize = 200;

/// Prints what a schedule means in plain words and its next times, in its own zone and in UTC. Clock
/// changes are marked between the lines. Nothing is stored.
#[derive(Debug, Args)]
#[command(after_help = "\
Schedules:
  */5 9-16 * * 1-5                 cron: minute, hour, day of the month, month, day of the week
  every 15m                        by elapsed time
  daily at 02:00                   also: daily at 02:00,14:00
  weekly on mon,thu at 09:00
and behind any of them, separated by commas:
  09:30-16:00                      only between these times
  mon-fri                          only on these days; also: weekdays, weekends
  except holidays                  not on the days in the file of --holidays
  America/New_York                 the time zone; UTC if none is named

Examples:
  windlass schedule next \"*/5 9-16 * * 1-5\" --tz America/New_York
  windlass schedule next \"every 5 minutes, 9:30-16:00 America/New_York, weekdays\" --count 100
  windlass schedule next \"daily at 02:30\" --tz Europe/Berlin --from 2027-03-26T00:00:00Z
  windlass schedule next \"daily at 09:00, mon-fri, except holidays\" --holidays holidays.txt --json")]
pub(crate) struct NextArgs {
    /// The schedule, such as "*/5 9-16 * * 1-5" or "daily at 02:00"; quote it, since a shell expands stars
    #[arg(value_name = "EXPR", required = true, num_args = 1..)]
    schedule: Vec<String>,
    /// The time zone, if the schedule names none [default: UTC]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Print times after this instant, such as 2027-03-12T16:40:00-05:00 [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = parse_instant)]
    from: Option<Timestamp>,
    /// The number of times to print
    #[arg(long, value_name = "N", default_value_t = COUNT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    count: u32,
    /// The file of the dates that `except holidays` leaves out, a date and a name a line
    #[arg(long, value_name = "FILE")]
    holidays: Option<PathBuf>,
}

pub(super) fn parse_instant(text: &str) -> Result<Timestamp, ParseInstantError> {
    Timestamp::parse(text)
}

/// Prints the next times.
pub(crate) fn next(args: &NextArgs, now: Timestamp, output: &mut Output) -> Result<Code, Failure> {
    let schedule = read_schedule(&args.schedule.join(" "), args.tz.as_deref())?;
    let holidays = read_holidays(args.holidays.as_deref(), &schedule)?;
    let preview = Preview::of(&schedule, &holidays, args.from.unwrap_or(now), args.count as usize);
    if output.is_json() {
        output.json(&preview.json())?;
    } else {
        preview.lines().iter().try_for_each(|line| output.line(line))?;
    }
    preview.notes(args.count as usize).iter().for_each(|note| output.note(note));
    Ok(Code::Ok)
}

/// Parses a schedule and the zone that is named apart, if any.
pub(super) fn read_schedule(text: &str, tz: Option<&str>) -> Result<Schedule, Failure> {
    let usage = |error: windlass_core::schedule::ScheduleError| Failure::usage(error.to_string());
    match tz {
        Some(name) => Schedule::parse_in(text, Zone::parse(name).map_err(usage)?).map_err(usage),
        None => Schedule::parse(text).map_err(usage),
    }
}

/// Reads the holidays file. Fails if the schedule says `except holidays` and no file is named, or the other
/// way round.
pub(super) fn read_holidays(file: Option<&Path>, schedule: &Schedule) -> Result<Holidays, Failure> {
    match (file, schedule.window().except_holidays) {
        (Some(path), true) => holidays_file(path).map_err(Failure::usage),
        (None, false) => Ok(Holidays::default()),
        (None, true) => Err(Failure::usage("the schedule says `except holidays`, but no holidays are given")
            .hint("name a file with --holidays, with a date and a name a line")),
        (Some(_), false) => {
            Err(Failure::usage("--holidays changes nothing: the schedule runs on holidays too")
                .hint("add `except holidays` to the schedule, or leave --holidays out"))
        }
    }
}

/// The ticks, clock changes and holidays after an instant.
pub(super) struct Preview<'a> {
    schedule: &'a Schedule,
    from: Timestamp,
    ticks: Vec<Timestamp>,
    changes: Vec<ClockChange>,
    /// The days that are left out, with their names.
    holidays: Vec<(String, String)>,
    /// The last day that the list of holidays covers.
    holidays_until: Option<String>,
}

impl<'a> Preview<'a> {
    fn of(schedule: &'a Schedule, holidays: &Holidays, from: Timestamp, count: usize) -> Self {
        let ticks: Vec<_> = schedule.ticks_after(from, holidays).take(count).collect();
        Self::of_ticks(schedule, holidays, from, ticks)
    }

    /// A preview of given ticks, such as those that a pause leaves.
    pub(super) fn of_ticks(
        schedule: &'a Schedule,
        holidays: &Holidays,
        from: Timestamp,
        ticks: Vec<Timestamp>,
    ) -> Self {
        let last = ticks.last().copied().unwrap_or(from);
        let changes = schedule.zone().clock_changes(from, last, CHANGES_MAX);
        let (first_day, last_day) = (day(schedule, from), day(schedule, last));
        let between = holidays.iter().filter(|(date, _)| (&first_day..=&last_day).contains(&date));
        let holidays_until = holidays.covers().map(|(_, last)| last);
        let holidays = between.map(|(date, name)| (date, name.to_owned())).collect();
        Self { schedule, from, ticks, changes, holidays, holidays_until }
    }

    /// All lines in the order of time, after a head that describes the schedule.
    fn lines(&self) -> Vec<String> {
        let head = [self.schedule.to_string(), self.schedule.words(), String::new()];
        head.into_iter().chain(self.times()).collect()
    }

    /// All lines in the order of time.
    pub(super) fn times(&self) -> Vec<String> {
        let zone = self.schedule.zone();
        let width = self.ticks.iter().map(|tick| zone.reading_for_people(*tick).len()).max().unwrap_or(0);
        let width = width.max(zone.name().len());
        let ticks = self
            .ticks
            .iter()
            .map(|tick| (*tick, 2, format!("{:<width$}  {}", zone.reading_for_people(*tick), in_utc(*tick))));
        let changes = self.clock_lines().into_iter().map(|(at, line)| (at, 0, line));
        let holidays = self.holidays.iter().map(|(date, name)| {
            (self.before(date), 1, format!("-- {date} is a holiday: {} --", printable(name)))
        });
        let mut rows: Vec<_> = ticks.chain(changes).chain(holidays).collect();
        rows.sort();
        let title = (!self.ticks.is_empty()).then(|| format!("{:<width$}  UTC", zone.name()));
        title.into_iter().chain(rows.into_iter().map(|(_, _, line)| line)).collect()
    }

    /// The lines about clock changes. Where many lie between two ticks, as with a yearly schedule, one line
    /// replaces them.
    fn clock_lines(&self) -> Vec<(Timestamp, String)> {
        let zone = self.schedule.zone();
        let same_gap =
            |a: &ClockChange, b: &ClockChange| !self.ticks.iter().any(|tick| (a.at..b.at).contains(tick));
        let gaps = self.changes.chunk_by(same_gap);
        let lines = gaps.flat_map(|gap| match gap {
            [_, _, _, ..] => vec![(gap[0].at, format!("-- clocks change {} times --", gap.len()))],
            few => few.iter().map(|change| (change.at, clock_line(zone, change))).collect(),
        });
        lines.collect()
    }

    /// The time at which a day without ticks is listed: right before the first tick of a later day.
    fn before(&self, date: &str) -> Timestamp {
        let later = self.ticks.iter().find(|tick| day(self.schedule, **tick).as_str() > date);
        later.or(self.ticks.last()).copied().unwrap_or(self.from)
    }

    fn notes(&self, count: usize) -> Vec<String> {
        let ended =
            (self.ticks.len() < count).then(|| "there is no further time within fifty years".to_owned());
        let marked = (self.changes.len() == CHANGES_MAX)
            .then(|| format!("only {CHANGES_MAX} clock changes are shown"));
        let last_day = self.ticks.last().map(|tick| day(self.schedule, *tick)).unwrap_or_default();
        let unknown =
            self.holidays_until.as_ref().filter(|until| **until < last_day).map(|until| {
                format!("the list of holidays ends on {until}; later days count as ordinary ones")
            });
        [ended, marked, unknown].into_iter().flatten().collect()
    }

    pub(super) fn ticks_json(&self) -> Vec<Value> {
        let zone = self.schedule.zone();
        let tick = |tick: &Timestamp| json!({ "utc": in_utc(*tick), "local": zone.reading(*tick) });
        self.ticks.iter().map(tick).collect()
    }

    pub(super) fn changes_json(&self) -> Vec<Value> {
        let zone = self.schedule.zone();
        self.changes.iter().map(|change| change_json(zone, change)).collect()
    }

    fn json(&self) -> Value {
        let zone = self.schedule.zone();
        let holidays: Vec<_> =
            self.holidays.iter().map(|(date, name)| json!({ "date": date, "name": name })).collect();
        json!({
            "schedule": self.schedule,
            "words": self.schedule.words(),
            "zone": zone.name(),
            "zone_data": Zone::data_version(),
            "from": in_utc(self.from),
            "next": self.ticks_json(),
            "clock_changes": self.changes_json(),
            "holidays": holidays,
        })
    }
}

fn clock_line(zone: &Zone, change: &ClockChange) -> String {
    let (from, to) = change.from_to();
    let direction = if change.forward_s() > 0 { "forward" } else { "back" };
    let by = show_span(std::time::Duration::from_secs(u64::from(change.forward_s().unsigned_abs())));
    let now = zone.reading_for_people(change.at);
    format!("-- clocks go {direction} by {by}, from {from} to {to}: {now} --")
}

fn change_json(zone: &Zone, change: &ClockChange) -> Value {
    let (from, to) = change.from_to();
    json!({
        "utc": in_utc(change.at),
        "local": zone.reading(change.at),
        "clock_from": from,
        "clock_to": to,
        "forward_s": change.forward_s(),
    })
}

/// The date of an instant in the zone of the schedule.
fn day(schedule: &Schedule, at: Timestamp) -> String {
    schedule.zone().reading(at).chars().take("2027-03-12".len()).collect()
}

/// The instant in UTC, without a fraction of a second if it is zero, as with ticks and clock changes.
fn in_utc(at: Timestamp) -> String {
    at.to_string().replace(".000Z", "Z")
}
