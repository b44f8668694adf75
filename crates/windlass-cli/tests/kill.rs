//! The real binary, killed without warning. Every acknowledged job must still be stored, and end once.

use std::process::Child;

use serde_json::Value;
use windlass_conformance::history::{Event, FaultKind, History, Outcome, Rules, Uid, check};
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, JobId, JobState};

mod common;

use common::{Dir, wait_for};

/// Early kills hit the flood of enqueues at the start, late ones hit retries, timeouts and cancels.
const KILL_AFTER_LINES: [usize; 5] = [60, 250, 500, 700, 850];

/// How often `windlass dev` is killed.
const KILLS: usize = 10;

#[test]
fn dev_killed_ten_times_loses_nothing_and_ends_nothing_twice() {
    let dir = Dir::new();
    let mut killed = Vec::new();
    for round in 0..KILLS {
        let mut dev = dir.command(&["dev", "--json", "--quiet"]).spawn().expect("the binary starts");
        let enough = ledger_lines(&dir) + KILL_AFTER_LINES[round % KILL_AFTER_LINES.len()];
        let progress = wait_for(|| ledger_lines(&dir) > enough);
        assert!(progress, "dev continues after {round} kills");
        killed.push(dev.id());
        kill(&mut dev);
    }
    let summary = dir.ok(&["dev", "--finish", "--for", "10m", "--json"]).json();
    assert_eq!((&summary["lost"], &summary["waiting"]), (&Value::from(0), &Value::from(0)), "{summary}");
    let ended: i64 =
        ["succeeded", "dead", "cancelled"].iter().map(|end| summary[end].as_i64().expect("a count")).sum();
    assert_eq!(Some(ended), summary["enqueued"].as_i64(), "{summary}");
    let verdict = check(&history(&dir, &killed), &Rules::default());
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.jobs > 300, "expected a run of more than 300 jobs, got {}", verdict.jobs);
}

#[test]
fn one_job_that_kills_its_process_among_a_thousand_ends_as_the_only_dead_letter() {
    let dir = Dir::new();
    dir.write("windlass.toml", "[queues.bulk]\nconcurrency = 20\n[worker]\nstop_grace = \"1s\"\n");
    dir.ok(&["type", "register", "sample.import", "--queue", "bulk"]);
    let line = |act: &str, millis: u64| {
        format!(r#"{{"type":"sample.import","payload":{{"act":"{act}","millis":{millis}}}}}"#) + "\n"
    };
    let jobs: String =
        (0..1_001).map(|n| if n == 500 { line("abort", 0) } else { line("succeed", 5) }).collect();
    let enqueued = dir.with_input(&jobs, &["job", "enqueue", "--jsonl", "--json"]);
    assert_eq!(enqueued.code, 0, "{enqueued:?}");
    let mut starts = 0;
    while unfinished(&dir) > 0 {
        starts += 1;
        assert!(starts < 20, "the job is dead after three crashes");
        let mut serve = dir.command(&["serve", "--quiet"]).spawn().expect("the binary starts");
        wait_for(|| serve.try_wait().expect("its state can be read").is_some() || unfinished(&dir) == 0);
        kill(&mut serve);
    }
    let queue = dir.ok(&["queue", "show", "bulk", "--json"]).json();
    assert_eq!(queue["counts"]["dead_letters"], 1, "{queue}");
    assert_eq!(queue["totals"]["succeeded"], 1_000, "{queue}");
}

/// The number of ticks before the last kill, and the number of kills of a process that fires schedules.
const TICKS: usize = 12;
const FIRERS_KILLED: usize = 4;

#[test]
fn a_tick_is_one_job_though_the_processes_that_fire_are_killed() {
    let dir = Dir::new();
    let schedule = "[schedules.beat]\nschedule = \"every 1s\"\nmissed = \"run-all\"\nlimit = 1000\njob = \"sample.notify\"\npayload = { millis = 0 }\n";
    dir.write("windlass.toml", schedule);
    dir.ok(&["migrate"]);
    let serve = || dir.command(&["serve", "--quiet"]).spawn().expect("the binary starts");
    let (mut one, mut other) = (serve(), serve());
    for round in 0..FIRERS_KILLED {
        let enough = ticks(&dir).len() + TICKS / FIRERS_KILLED;
        assert!(wait_for(|| ticks(&dir).len() > enough), "ticks come after {round} kills");
        kill(&mut one);
        one = std::mem::replace(&mut other, serve());
    }
    // Both processes are dead for a moment: the ticks of that time are caught up on.
    kill(&mut one);
    kill(&mut other);
    let mut last = serve();
    let enough = ticks(&dir).len() + 2;
    assert!(wait_for(|| ticks(&dir).len() > enough), "ticks come after all were killed");
    dir.ok(&["schedule", "pause", "beat"]);
    kill(&mut last);
    let mut seconds: Vec<i64> = ticks(&dir);
    seconds.sort_unstable();
    let count = seconds.len();
    seconds.dedup();
    assert_eq!(seconds.len(), count, "no tick made two jobs");
    assert_eq!(seconds[count - 1] - seconds[0], count as i64 - 1, "no tick was lost: {seconds:?}");
}

/// The seconds whose ticks have made jobs, one for each job.
fn ticks(dir: &Dir) -> Vec<i64> {
    let jobs = dir.ok(&["job", "list", "--type", "sample.notify", "--limit", "200", "--json"]).json();
    let jobs = jobs.as_array().expect("a list").clone();
    let tick = |job: &Value| {
        let key = job["correlation"].as_str().expect("the job of a tick names it");
        let tick = key.strip_prefix("schedule/beat/").expect("it names its schedule");
        Timestamp::parse(tick).expect("an instant").as_micros() / 1_000_000
    };
    jobs.iter().map(tick).collect()
}

/// A `serve` that does not poll within an hour.
fn serve_without_polls(dir: &Dir) -> Child {
    let queues = ["high", "default", "screenshot", "low", "bulk"];
    let queues = queues.map(|queue| format!("[queues.{queue}]\npoll_interval = \"1h\"\n"));
    dir.write("windlass.toml", &queues.concat());
    dir.ok(&["migrate"]);
    let serve = dir.command(&["serve", "--quiet"]).spawn().expect("the binary starts");
    let registered = || dir.run(&["type", "show", "sample.notify", "--json"]).code == 0;
    assert!(wait_for(registered), "serve registers its types");
    serve
}

#[test]
fn a_job_that_another_process_puts_in_is_picked_up_without_a_poll() {
    let dir = Dir::new();
    let mut serve = serve_without_polls(&dir);
    // Several in a row: what wakes the worker for the first must also wake it for the next ones.
    for _ in 0..5 {
        let enqueued = dir.ok(&["job", "enqueue", "sample.notify", r#"{"millis":0}"#, "--json"]).json();
        dir.ok(&["job", "wait", &enqueued["id"].to_string(), "--timeout", "2m"]);
    }
    kill(&mut serve);
}

fn unfinished(dir: &Dir) -> u64 {
    let queue = dir.ok(&["queue", "show", "bulk", "--json"]).json();
    ["ready", "scheduled", "parked", "running"]
        .iter()
        .map(|job_state| queue["counts"][job_state].as_u64().expect("a count"))
        .sum()
}

fn kill(child: &mut Child) {
    // The process may have ended by itself.
    let _ = child.kill();
    child.wait().expect("a killed process ends");
}

fn ledger_lines(dir: &Dir) -> usize {
    std::fs::read_to_string(dir.path().join("windlass-dev.db.ledger")).map_or(0, |text| text.lines().count())
}

/// Translates the ledger of `dev`, the kills, and the final state of the store into the checker's terms.
/// The order of lines in the ledger is an order in which events happened.
fn history(dir: &Dir, killed: &[u32]) -> History {
    let mut history = History::default();
    let text =
        std::fs::read_to_string(dir.path().join("windlass-dev.db.ledger")).expect("dev writes a ledger");
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut at = 0;
    let mut push = |history: &mut History, event| {
        at += 1;
        history.push(Timestamp::from_micros(at), event);
    };
    let mut process = None;
    for line in &lines {
        // The first line of the next process comes after the end of the previous one.
        let next = line["process"].as_u64().filter(|next| process != Some(*next));
        let ended = next.and_then(|next| process.replace(next)).and_then(|ended| u32::try_from(ended).ok());
        if let Some(ended) = ended.filter(|ended| killed.contains(ended)) {
            push(&mut history, Event::fault(FaultKind::Kill, ended));
        }
        push(&mut history, translated(line));
    }
    for event in finals(dir) {
        push(&mut history, event);
    }
    history
}

fn translated(line: &Value) -> Event {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let uid = Uid(text("uid"));
    let job = JobId(line["job"].as_i64().unwrap_or_default());
    match line["event"].as_str() {
        Some("invoke") => Event::Invoke { uid, due: None },
        Some("acknowledged") => Event::Acknowledged { uid, job },
        Some("refused") => Event::Refused { uid },
        Some("started") => Event::start(uid, text("token"), &line["process"]),
        Some("ended") => {
            let outcome = if line["done"] == true { Outcome::Done } else { Outcome::Failed };
            Event::end(uid, text("token"), outcome)
        }
        other => panic!("an unknown line {other:?}"),
    }
}

/// Every job, as the binary lists it.
fn finals(dir: &Dir) -> Vec<Event> {
    let mut events = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let mut args = vec!["--db", "windlass-dev.db", "job", "list", "--limit", "200", "--json"];
        if let Some(before) = &before {
            args.extend(["--before", before]);
        }
        let page = dir.ok(&args).json();
        let jobs =
            page.as_array().cloned().or_else(|| page["jobs"].as_array().cloned()).expect("a list of jobs");
        let Some(last) = jobs.last() else { return events };
        before = Some(last["id"].to_string());
        events.extend(jobs.iter().map(final_event));
    }
}

fn final_event(job: &Value) -> Event {
    let counters: Counters = serde_json::from_value(job["counters"].clone()).expect("counters");
    let job_state: JobState = job["state"].as_str().expect("a state").parse().expect("a state");
    let uid = Uid(job["payload"]["uid"].as_str().expect("sample jobs carry their uid").to_owned());
    Event::Final { uid, job: JobId(job["id"].as_i64().expect("a number")), job_state, counters }
}
