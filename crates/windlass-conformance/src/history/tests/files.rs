//! Ledgers on disk, and what the death of a writer leaves in them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::*;

/// A path that no other test of this process uses. Removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("windlass-ledger-{}-{name}", std::process::id())))
    }

    fn append_raw(&self, text: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

fn invoke(name: &str) -> Event {
    Event::Invoke { uid: Uid::from(name), due: None }
}

fn every_event() -> Vec<Event> {
    let counters = Counters { attempts: 1, failures: 2, crashes: 3, holds: 4 };
    vec![
        Event::Invoke { uid: uid(), due: Some(at(9)) },
        Event::Acknowledged { uid: uid(), job: JobId(1) },
        Event::Refused { uid: uid() },
        Event::Unknown { uid: uid() },
        Event::start(uid(), "a", "w1"),
        Event::end(uid(), "a", Outcome::Snoozed),
        Event::applied(uid(), "a"),
        Event::lost(uid(), "a"),
        Event::CancelAccepted { uid: uid() },
        Event::StartedOver { uid: uid() },
        Event::Fault { kind: FaultKind::Freeze, target: Some("w1".to_owned()), until: Some(at(9)) },
        Event::Final { uid: uid(), job: JobId(1), job_state: JobState::Dead, counters },
        Event::Repaired,
    ]
}

#[test]
fn every_kind_of_line_is_read_back_as_it_was_written() {
    let scratch = Scratch::new("all");
    let ledger = Ledger::open(&scratch.0).unwrap();
    let mut expected = History::default();
    for (second, event) in every_event().into_iter().enumerate() {
        ledger.append(at(second as i64), event.clone()).unwrap();
        expected.push(at(second as i64), event);
    }
    assert_eq!(History::read(&scratch.0).unwrap(), expected);
}

#[test]
fn a_torn_last_line_is_left_out() {
    let scratch = Scratch::new("torn");
    Ledger::open(&scratch.0).unwrap().append(at(1), invoke("p/1")).unwrap();
    scratch.append_raw(r#"{"at":2000000,"event":"invo"#);
    assert_eq!(History::read(&scratch.0).unwrap().entries.len(), 1);
}

#[test]
fn a_ledger_with_a_torn_line_goes_on() {
    let scratch = Scratch::new("goes-on");
    scratch.append_raw(r#"{"at":2000000,"event":"invo"#);
    Ledger::open(&scratch.0).unwrap().append(at(1), invoke("p/2")).unwrap();
    let entries = History::read(&scratch.0).unwrap().entries;
    let events: Vec<_> = entries.into_iter().map(|entry| entry.event).collect();
    assert_eq!(events, [Event::Repaired, invoke("p/2")]);
}

#[test]
fn a_bad_line_in_the_middle_is_an_error_with_its_number() {
    let text =
        "{\"at\":1,\"event\":\"repaired\"}\n\nnonsense\n{\"at\":1,\"event\":\"refused\",\"uid\":\"x\"}\n";
    let error = History::parse(text).unwrap_err().to_string();
    assert!(error.contains("line 3"), "{error}");
}

#[test]
fn lines_of_several_writers_do_not_mix() {
    let scratch = Scratch::new("many");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &scratch.0;
            scope.spawn(move || {
                let ledger = Ledger::open(path).unwrap();
                for n in 0..250 {
                    ledger.append(at(n), invoke(&format!("p{writer}/{n}"))).unwrap();
                }
            });
        }
    });
    let entries = History::read(&scratch.0).unwrap().entries;
    let written = |entry: &&Entry| entry.event != Event::Repaired;
    assert_eq!(entries.iter().filter(written).count(), 1_000);
}

#[test]
fn a_mark_beside_a_line_that_was_being_written_spoils_nothing() {
    let scratch = Scratch::new("beside");
    Ledger::open(&scratch.0).unwrap().append(at(1), invoke("p/1")).unwrap();
    scratch.append_raw("\n{\"at\":0,\"event\":\"repaired\"}\n");
    Ledger::open(&scratch.0).unwrap().append(at(2), invoke("p/2")).unwrap();
    let entries = History::read(&scratch.0).unwrap().entries;
    let events: Vec<_> = entries.into_iter().map(|entry| entry.event).collect();
    assert_eq!(events, [invoke("p/1"), Event::Repaired, invoke("p/2")]);
}
