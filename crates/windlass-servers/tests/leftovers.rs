//! A server leaves nothing behind, however the process ends that started it.

#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use common::{processes_in, until};
use windlass_servers::postgres;

mod common;

/// A process with a shared server, whose folder for temporary files is otherwise empty.
struct Holder {
    process: Child,
    /// Stored apart from the process, since waiting for a process closes its input.
    input: Option<ChildStdin>,
    url: String,
    temporary: PathBuf,
}

impl Holder {
    /// Starts the process and waits until the server is up.
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut holder = Self::begin(name, arguments);
        let mut url = String::new();
        BufReader::new(holder.process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        holder.url = url.trim().to_owned();
        assert!(holder.is_up(), "a server must be there before it can be left behind");
        holder
    }

    /// Starts the process without waiting for the server.
    fn begin(name: &str, arguments: &[&str]) -> Self {
        // The space in the name shows that no shell splits a path. The server's account must be able to
        // enter the folder.
        let temporary = std::env::temp_dir().join(format!("windlass {name} {}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hold-shared-server"));
        command.args(arguments).env_remove("DATABASE_URL").env("TMPDIR", &temporary);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        Self { process, input, url: String::new(), temporary }
    }

    fn is_up(&self) -> bool {
        postgres::psql(&self.url, "SELECT 42").is_ok_and(|answer| answer == "42")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        assert!(!self.process.wait().unwrap().success());
    }

    fn end_of_input(&mut self) {
        drop(self.input.take());
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().count() == 0
}

fn expect_nothing_left(holder: &Holder, segments: &[String]) {
    until("the folder is empty", || is_empty(&holder.temporary));
    assert_eq!(processes_in(&holder.temporary), 0);
    assert!(!holder.is_up());
    let now = shared_memory();
    assert!(segments.iter().all(|segment| !now.contains(segment)), "{segments:?} is among {now:?}");
    fs::remove_dir(&holder.temporary).unwrap();
}

/// Returns the shared memory segments of the holder's server.
fn segments_of(holder: &Holder) -> Vec<String> {
    let server = fs::read_dir(&holder.temporary).unwrap().next().unwrap().unwrap().path();
    let lock = fs::read_to_string(server.join("data/postmaster.pid")).unwrap();
    let segment = lock.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert!(shared_memory().contains(&segment));
    vec![segment]
}

fn shared_memory() -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    table.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_process_that_ends_leaves_nothing_behind() {
    let mut holder = Holder::start("ends", &[]);
    let segments = segments_of(&holder);
    holder.end_of_input();
    assert!(holder.process.wait().unwrap().success());
    expect_nothing_left(&holder, &segments);
}

#[test]
fn a_process_that_is_killed_leaves_nothing_behind() {
    let mut holder = Holder::start("killed", &[]);
    let segments = segments_of(&holder);
    holder.kill();
    expect_nothing_left(&holder, &segments);
}

#[test]
fn a_process_that_is_killed_while_its_server_is_being_made_leaves_nothing_behind() {
    let mut holder = Holder::begin("early", &[]);
    let making = || {
        let folder = fs::read_dir(&holder.temporary).unwrap().next();
        folder.is_some_and(|folder| folder.unwrap().path().join("data/base").exists())
    };
    until("`initdb` writes", making);
    assert!(processes_in(&holder.temporary) > 0, "`initdb` runs");
    holder.kill();
    expect_nothing_left(&holder, &[]);
}

#[test]
fn a_child_that_was_waited_for_keeps_the_server_and_then_nothing_is_left() {
    let mut holder = Holder::start("child", &["--child"]);
    let segments = segments_of(&holder);
    holder.kill();
    assert!(holder.is_up(), "the child still lives");
    holder.end_of_input();
    expect_nothing_left(&holder, &segments);
}
