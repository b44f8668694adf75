//! The processes of a server: all processes whose working directory is inside its folder.
//!
//! A process group is not sufficient. Every process of PostgreSQL creates a session of its own, so that a
//! signal to the group reaches only the first process; when the first process is gone, the others have lost
//! their parent too. Guarded by `postgres::a_killed_server_leaves_no_process`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, wait};

/// How long the system may take to end or stop a process after a signal.
const SIGNAL_MAX: Duration = Duration::from_secs(20);

/// Kills all processes at once, without a chance to clean up, and waits until they are gone.
pub(crate) fn kill(folder: &Path) -> Result<(), Error> {
    // Sends the signal once more after the last process is gone: a process may have started another just
    // before.
    let gone = || {
        let left = inside(folder)?;
        signal_all(&left, Signal::KILL)?;
        Ok(left.is_empty().then_some(()))
    };
    wait::until(SIGNAL_MAX, gone)?.ok_or_else(|| still("gone", folder))
}

/// Stops all processes, and waits until they are stopped.
pub(crate) fn freeze(folder: &Path) -> Result<(), Error> {
    let frozen = || {
        let all = inside(folder)?;
        let moving: Vec<_> = all.into_iter().filter(|pid| !is_frozen(*pid)).collect();
        signal_all(&moving, Signal::STOP)?;
        Ok(moving.is_empty().then_some(()))
    };
    wait::until(SIGNAL_MAX, frozen)?.ok_or_else(|| still("frozen", folder))
}

/// Resumes all processes.
pub(crate) fn thaw(folder: &Path) -> Result<(), Error> {
    signal_all(&inside(folder)?, Signal::CONT)
}

/// Returns the processes that work inside the folder. Zombie processes, which have ended and wait for their
/// parent to reap them, are not among them.
pub(crate) fn inside(folder: &Path) -> Result<Vec<Pid>, Error> {
    let entries =
        fs::read_dir("/proc").map_err(Error::io("reading /proc, which these servers need (Linux)"))?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(Pid::from_raw);
    Ok(pids.filter(|pid| works_in(*pid, folder)).collect())
}

fn works_in(pid: Pid, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())).is_ok_and(|cwd| cwd.starts_with(folder))
}

/// Whether every thread of a process is stopped: the system stops them one by one. A thread that has ended
/// meanwhile counts as stopped.
fn is_frozen(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return false };
    let mut stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok()).peekable();
    stats.peek().is_some() && stats.all(|stat| is_stopped(&stat))
}

/// Whether the state is "stopped". The state is the first letter after the name; the name is in brackets
/// and may contain any letters.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

fn signal_all(pids: &[Pid], signal: Signal) -> Result<(), Error> {
    pids.iter().try_for_each(|pid| self::signal(*pid, signal))
}

/// Sends a signal. A process that is gone already is no error.
pub(crate) fn signal(pid: Pid, signal: Signal) -> Result<(), Error> {
    match kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
    .map_err(Error::io(format!("sending {signal:?} to process {}", pid.as_raw_nonzero())))
}

fn still(expected: &str, folder: &Path) -> Error {
    Error::TooSlow {
        expected: format!("every process in {} to be {expected}", folder.display()),
        waited: SIGNAL_MAX,
        log: String::new(),
    }
}
