//! The threads of an open file, and the thread that opens a file later that could not be opened at once.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use super::locks::Locks;
use super::open::{self, SqliteOptions};
use super::reader::{self, ReaderInbox};
use super::store_error::Failure;
use super::watch::Watch;
use super::writer::{Writer, WriterInbox};
use crate::listeners::Listeners;

/// The interval of retries for a file that could not be opened.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// The state that the threads of one file share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) options: SqliteOptions,
    pub(super) writes: Arc<WriterInbox>,
    pub(super) reads: Arc<ReaderInbox>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) locks: Arc<Locks>,
}

/// The threads of an open file.
#[derive(Default)]
pub(super) struct Threads {
    watch: Option<Watch>,
    running: Vec<JoinHandle<()>>,
}

impl Shared {
    fn open(&self) -> Result<Threads> {
        self.start(open::open_writer(&self.path, &self.options)?)
    }

    /// Starts the threads. Every step that may fail because of the file comes before the first thread, so
    /// that it can be retried.
    pub(super) fn start(&self, conn: Connection) -> Result<Threads> {
        let (clock, writes) = (self.options.clock.clone(), self.writes.clone());
        let writer = Writer::new(conn, clock, writes, self.listeners.clone(), self.locks.clone())?;
        let readers: Vec<_> = (0..reader::READERS)
            .map(|_| open::open_reader(&self.path, &self.options))
            .collect::<std::result::Result<_, _>>()?;
        let mut threads = Threads::default();
        threads.spawn("windlass-writer", move || writer.run())?;
        for conn in readers {
            let reads = self.reads.clone();
            threads.spawn("windlass-reader", move || reader::run(&conn, &reads))?;
        }
        let watch = Watch::start(&self.path, self.writes.clone());
        threads.watch = Some(watch.map_err(|error| no_thread(&error))?);
        Ok(threads)
    }
}

impl Threads {
    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.running.push(thread.map_err(|error| no_thread(&error))?);
        Ok(())
    }

    /// Stops watching the file. The inboxes must be closed before [`join`](Self::join).
    pub(super) fn stop_watching(&mut self) {
        self.watch = None;
    }

    /// Waits until all have ended, except the calling thread.
    pub(super) fn join(&mut self) {
        let own = std::thread::current().id();
        for thread in self.running.drain(..).filter(|thread| thread.thread().id() != own) {
            let _ = thread.join();
        }
    }
}

fn no_thread(error: &std::io::Error) -> EngineError {
    EngineError::Unavailable {
        why: format!(
            "starting a thread or opening a pipe failed ({error}); check the limits of threads and open files"
        ),
    }
}

/// A file that could not be opened at once, and the thread that retries it.
pub(super) struct Opener {
    /// `None` once it is open.
    trouble: Arc<Mutex<Option<Failure>>>,
    /// Dropping it ends the thread.
    keep: Option<Sender<()>>,
    thread: Option<JoinHandle<Option<Threads>>>,
}

impl Opener {
    /// Starts to retry, after the file could not be opened for this reason.
    pub(super) fn start(shared: Shared, why: EngineError) -> Result<Self> {
        let trouble = Arc::new(Mutex::new(Some(Failure::from(why))));
        let (keep, kept) = channel();
        let thread = std::thread::Builder::new().name("windlass-opener".to_owned()).spawn({
            let trouble = Arc::clone(&trouble);
            move || open_when_possible(&shared, &kept, &trouble)
        });
        let thread = Some(thread.map_err(|error| no_thread(&error))?);
        Ok(Self { trouble, keep: Some(keep), thread })
    }

    /// Returns why it is not open yet.
    pub(super) fn trouble(&self) -> Option<EngineError> {
        locked(&self.trouble).clone().map(EngineError::from)
    }

    /// Ends the thread, and returns the threads of the file if it was opened.
    pub(super) fn end(mut self) -> Option<Threads> {
        drop(self.keep.take());
        self.thread.take()?.join().ok()?
    }
}

fn open_when_possible(
    shared: &Shared,
    kept: &Receiver<()>,
    trouble: &Mutex<Option<Failure>>,
) -> Option<Threads> {
    loop {
        match kept.recv_timeout(TRY_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return None,
        }
        match shared.open() {
            Ok(threads) => {
                *locked(trouble) = None;
                tracing::warn!(path = %shared.path.display(), "the file is open now; operations on it succeed again");
                return Some(threads);
            }
            Err(error) => *locked(trouble) = Some(Failure::from(error)),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
