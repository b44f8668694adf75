//! A worker in a process of its own, which can be frozen and resumed. It is this test program, started
//! again with a test that knows of it.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use windlass_core::engine::Engine;
use windlass_core::limits::WORKER_LEASE;

use crate::workers::shared_ledger::SharedLedger;
use crate::workers::worker::Worker;

/// The environment variables by which a process knows its ledger, its server, its place on it and its
/// lease.
const VARIABLES: [&str; 4] =
    ["WINDLASS_CREW_LEDGER", "WINDLASS_CREW_URL", "WINDLASS_CREW_PLACE", "WINDLASS_CREW_LEASE_MILLIS"];
/// The time that it works on a claim. It is long, so that the process holds a job at almost every moment.
pub(crate) const LASTS: Duration = Duration::from_millis(40);

/// The information that a process needs to open a store.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The test that begins with [`work_if_asked`].
    pub(crate) test_name: &'static str,
    pub(crate) url: String,
    /// The schema or namespace.
    pub(crate) place: String,
}

/// A worker process. It ends when its input closes, and so also with the process that started it. Dropping
/// it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(way: Way, shared_ledger: &SharedLedger, lease: Duration) -> Self {
        let (ledger, lease) = (shared_ledger.path.display().to_string(), lease.as_millis().to_string());
        let values = [ledger, way.url, way.place, lease];
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", way.test_name, "--nocapture"]).envs(VARIABLES.into_iter().zip(values));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Freezes the process.
    pub(crate) fn freeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// Resumes the process.
    pub(crate) fn wake(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Tells the process to stop.
    pub(crate) fn tell_to_stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Tells the process to stop, and waits until it has ended.
    pub(crate) fn end(mut self) {
        self.tell_to_stop();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a worker process ends with success: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The parameters of such a process.
pub(crate) struct Asked {
    pub(crate) shared_ledger: SharedLedger,
    pub(crate) url: String,
    pub(crate) place: String,
    pub(crate) lease: Duration,
}

impl Asked {
    /// Reads the parameters; returns `None` if this is no such process.
    pub(crate) fn read() -> Option<Self> {
        let [Ok(ledger), Ok(url), Ok(place), Ok(lease)] = VARIABLES.map(std::env::var) else { return None };
        let lease = lease.parse().map_or(WORKER_LEASE, Duration::from_millis);
        Some(Self { shared_ledger: SharedLedger::open(ledger.as_ref()), url, place, lease })
    }
}

/// Whether this is such a process; if so, its work is done when this returns. `open` gets the URL and the
/// place.
pub(crate) async fn work_if_asked(open: impl AsyncFn(String, String) -> Arc<dyn Engine>) -> bool {
    let Some(asked) = Asked::read() else { return false };
    let (engine, stop) = (open(asked.url, asked.place).await, Arc::<AtomicBool>::default());
    let worker = Worker {
        engine,
        shared_ledger: Arc::new(asked.shared_ledger),
        lease: asked.lease,
        lasts: LASTS,
        stop: Arc::clone(&stop),
    };
    tokio::spawn(async move {
        told_to_stop().await;
        stop.store(true, Ordering::SeqCst);
    });
    worker.run().await;
    true
}

/// Waits until the process is told to stop: its input ends.
pub(crate) async fn told_to_stop() {
    // The input is ignored; only its end counts.
    let read = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(read).await;
}
