//! The real binary and its signals: the first one lets running jobs finish, the second one gives them back
//! at once.

use std::process::Child;

mod common;

use common::{Dir, ended, terminate, wait_for};

#[test]
fn a_signal_lets_running_jobs_finish() {
    // The grace period is far longer, so that only the end of the job ends the process.
    let (dir, mut serve, job) = serving_a_job(r#"{"act":"succeed","millis":10000}"#);
    terminate(&serve);
    assert_eq!(ended(&mut serve), Some(0));
    let shown = dir.ok(&["job", "show", &job, "--json"]).json();
    assert_eq!(shown["state"], "succeeded", "{shown}");
}

#[test]
fn a_second_signal_gives_running_jobs_back_at_once() {
    // Neither the job nor the grace period ends within an hour: only a second signal ends the process.
    let (dir, serve, job) = serving_a_job(r#"{"act":"succeed","millis":3600000}"#);
    // Pending signals of one kind are merged into one, so they are sent until the process has received a
    // second.
    assert_eq!(ended_by_signals(serve), Some(0));
    let shown = dir.ok(&["job", "show", &job, "--json"]).json();
    assert_eq!(shown["state"], "ready", "{shown}");
    assert_eq!(
        (&shown["counters"]["failures"], &shown["counters"]["crashes"]),
        (&0.into(), &0.into()),
        "{shown}"
    );
}

/// Starts a `windlass serve` with a grace period of an hour, and waits until a job runs in it.
fn serving_a_job(payload: &str) -> (Dir, Child, String) {
    let dir = Dir::new();
    dir.write("windlass.toml", "[worker]\nstop_grace = \"1h\"\n");
    dir.ok(&["migrate"]);
    let serve = dir.command(&["serve", "--quiet"]).spawn().expect("the binary starts");
    assert!(
        wait_for(|| dir.run(&["type", "show", "sample.report", "--json"]).code == 0),
        "serve registers its types"
    );
    let enqueue = ["job", "enqueue", "sample.report", payload, "--timeout", "2h", "--json"];
    let mut job = dir.ok(&enqueue).json()["id"].to_string();
    // A machine that is so busy that it shows only the end of the job gets another one.
    let runs = || {
        let state = dir.ok(&["job", "show", &job, "--json"]).json()["state"].clone();
        if state == "succeeded" {
            job = dir.ok(&enqueue).json()["id"].to_string();
        }
        state == "running"
    };
    assert!(wait_for(runs), "the job runs");
    (dir, serve, job)
}

fn ended_by_signals(mut child: Child) -> Option<i32> {
    let over = wait_for(|| {
        terminate(&child);
        child.try_wait().expect("its state can be read").is_some()
    });
    assert!(over, "the second signal ends the process");
    child.wait().expect("the process has ended").code()
}
