//! `cargo xtask servers` removes what it has started, whatever ends it.

#![allow(clippy::unwrap_used, reason = "test code, including what tests share")]

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// A folder for temporary files that has only what the servers leave in it. Their account may enter it.
fn temporary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
    DirBuilder::new().mode(0o755).create(&path).unwrap();
    path
}

fn xtask(temporary: &Path, script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["servers", "--", "sh", "-c", script]).env("TMPDIR", temporary).stdout(Stdio::piped());
    command
}

/// Starts the command in a separate process group, as a shell does, and waits until the command runs.
fn start(temporary: &Path, script: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = xtask(temporary, &format!("echo up; {script}")).process_group(0).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap() == "up").unwrap().unwrap();
    (child, lines)
}

fn send(signal: &str, target: &str) {
    let sent = Command::new("sh").args(["-c", "kill -s $0 -- $1", signal, target]).status().unwrap();
    assert!(sent.success());
}

fn expect_nothing_left(temporary: &Path) {
    let start = Instant::now();
    while fs::read_dir(temporary).unwrap().count() > 0 {
        assert!(start.elapsed() < LIMIT, "expected {} to be empty", temporary.display());
        sleep(Duration::from_millis(10));
    }
    fs::remove_dir(temporary).unwrap();
}

#[test]
fn a_command_that_fails_gives_its_code_and_leaves_nothing_behind() {
    let temporary = temporary("fails");
    let output = xtask(&temporary, "psql -XAtc 'SELECT 6 * 7' $DATABASE_URL; exit 5").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "only what the command printed");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "everything is removed before the end");
    fs::remove_dir(&temporary).unwrap();
}

/// Does what Ctrl-C does, with a signal that a shell never lets its background jobs ignore.
#[test]
fn a_signal_to_the_whole_group_leaves_nothing_behind() {
    let temporary = temporary("group");
    let (mut child, _lines) = start(&temporary, "sleep 300");
    send("TERM", &format!("-{}", child.id()));
    assert!(!child.wait().unwrap().success());
    expect_nothing_left(&temporary);
}

#[test]
fn a_command_that_outlives_a_killed_xtask_keeps_its_servers_until_it_ends() {
    let temporary = temporary("outlives");
    let script = "read word; psql -XAtc 'SELECT 6 * 7' $DATABASE_URL";
    let (input, hold) = std::io::pipe().unwrap();
    let mut command = xtask(&temporary, &format!("echo up; {script}"));
    let mut child = command.stdin(input).process_group(0).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line == "up").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(fs::read_dir(&temporary).unwrap().count() > 0, "the command still runs");
    drop(hold);
    assert_eq!(lines.next().as_deref(), Some("42"));
    expect_nothing_left(&temporary);
}
