//! A worker in a process of its own, which can be stopped where it is and woken. It is this test program, started again
//! with a test that knows of it.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use windlass_core::engine::Engine;
use windlass_core::limits::WORKER_LEASE;

use crate::crew::book::Book;
use crate::crew::worker::Worker;

/// By which a process knows its ledger, its server, its place on it and its lease.
const VARIABLES: [&str; 4] =
    ["WINDLASS_CREW_LEDGER", "WINDLASS_CREW_URL", "WINDLASS_CREW_PLACE", "WINDLASS_CREW_LEASE_MILLIS"];
/// Long, so that it holds something at almost every moment.
const LASTS: Duration = Duration::from_millis(40);

/// How a process gets to a store.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The test that begins with [`work_if_asked`].
    pub(crate) door: &'static str,
    pub(crate) url: String,
    /// Its schema or namespace.
    pub(crate) place: String,
}

/// It ends when its input does, and so also with whoever started it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(way: Way, book: &Book, lease: Duration) -> Self {
        let (ledger, lease) = (book.path.display().to_string(), lease.as_millis().to_string());
        let values = [ledger, way.url, way.place, lease];
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", way.door, "--nocapture"]).envs(VARIABLES.into_iter().zip(values));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it where it is.
    pub(crate) fn freeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// Lets it go on.
    pub(crate) fn wake(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a worker process ends well: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this is such a process; if so, its work is done when this returns. `open` gets the URL and the place.
pub(crate) async fn work_if_asked(open: impl AsyncFn(String, String) -> Arc<dyn Engine>) -> bool {
    let [Ok(ledger), Ok(url), Ok(place), Ok(lease)] = VARIABLES.map(std::env::var) else { return false };
    let worker = Worker {
        engine: open(url, place).await,
        book: Arc::new(Book::open(ledger.as_ref())),
        lease: lease.parse().map_or(WORKER_LEASE, Duration::from_millis),
        lasts: LASTS,
        stop: stop_with_input(),
    };
    worker.run().await;
    true
}

fn stop_with_input() -> Arc<AtomicBool> {
    let stop = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        // Whatever it reads, it is the end that counts.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::SeqCst);
    });
    stop
}
