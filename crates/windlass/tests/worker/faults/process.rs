//! A worker in a separate process, which can be frozen and resumed. It is this test program, started again
//! with a test that recognises it.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use windlass::Worker;

use super::errand::handlers;
use super::shared_ledger::SharedLedger;
use super::{LEASE, options};
use crate::struck;

/// The variables that give a process its ledger and its server.
const VARIABLES: [&str; 2] = ["WINDLASS_ERRANDS_LEDGER", "WINDLASS_ERRANDS_URL"];
/// The test that begins with [`work_if_asked`].
const TEST_NAME: &str =
    "faults::a_worker_that_stands_still_until_its_jobs_were_rescued_ends_none_of_them_when_it_is_woken";

/// A worker process. It ends when its input does, and so also when its parent ends. Dropping it kills it.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start(url: &str, shared_ledger: &SharedLedger) -> Self {
        let values = [shared_ledger.path.display().to_string(), url.to_owned()];
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", TEST_NAME, "--nocapture"]).envs(VARIABLES.into_iter().zip(values));
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the process starts"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The name under which it writes to the ledger.
    pub(super) fn name(&self) -> String {
        name(self.pid())
    }

    /// Freezes the process.
    pub(super) fn freeze(&self) {
        kill_process(Pid::from_child(&self.0), Signal::STOP).expect("the process exists");
    }

    /// Resumes the process.
    pub(super) fn wake(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).expect("the process exists");
    }

    /// Asks the process to stop, and waits until it has ended.
    pub(super) fn end(mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("the process exists");
        assert!(status.success(), "expected the worker process to succeed, got {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn name(pid: u32) -> String {
    format!("process {pid}")
}

/// Whether this program is such a process. If so, its work is done when this returns.
pub(super) async fn work_if_asked() -> bool {
    let [Ok(ledger), Ok(url)] = VARIABLES.map(std::env::var) else { return false };
    let shared_ledger = Arc::new(SharedLedger::open(ledger.as_ref()));
    let handlers = handlers(&shared_ledger, &name(std::process::id()), &watch::Sender::default());
    let mut worker =
        Worker::start(struck::open(&url).await, handlers, options(LEASE)).await.expect("the worker starts");
    // The input has no content; its end asks the process to end.
    let read = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(read).await;
    worker.stop().await;
    true
}
