//! The end of the append-only file to which a server writes every change. A kill does not lose writes that
//! the system has received; a power cut loses writes that were not synced. So a thread records the length
//! of the file, and a power cut truncates the file to its length a second before, which is the time between
//! syncs.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The time between syncs.
const SYNCED_EVERY: Duration = Duration::from_secs(1);
/// How often the length of the file is read.
const READ_EVERY: Duration = Duration::from_millis(10);

/// The largest gap between two readings, however busy the machine is.
const GAP_MAX: Duration = Duration::from_millis(500);

/// The lengths of the file with their times, for as far back as is of use.
type Lengths = Mutex<VecDeque<(Instant, u64)>>;

pub(crate) struct Tail {
    path: PathBuf,
    lengths: Arc<Lengths>,
}

impl Tail {
    /// Starts to record the length of the file.
    pub(crate) fn watch(folder: &Path) -> Self {
        // Redis 7 has a folder of files; earlier versions had one file.
        let names = ["appendonlydir/appendonly.aof.1.incr.aof", "appendonly.aof"];
        let path = names.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let path = path.expect("the server has an append-only file");
        let lengths = Arc::new(Mutex::new(VecDeque::from_iter(read_length(&path))));
        let (file, watched) = (path.clone(), Arc::downgrade(&lengths));
        std::thread::spawn(move || record_lengths(&file, &watched));
        Self { path, lengths }
    }

    /// Truncates the file of a stopped server to its length a second before, or at the first reading.
    pub(crate) fn cut_back(&self) {
        let mut lengths = self.lock();
        // While this whole program was stopped, no thread read the length, and no process wrote.
        let stood_still = lengths.len() > 1 && lengths[1].0 - lengths[0].0 > GAP_MAX;
        let (_, synced) = lengths[usize::from(stood_still)];
        OpenOptions::new().write(true).open(&self.path).unwrap().set_len(synced).unwrap();
        // The readings so far do not apply to the file after the cut.
        *lengths = VecDeque::from([(Instant::now(), synced)]);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records lengths until the owner is dropped. The first entry that is kept is the last one that is at
/// least a second old.
fn record_lengths(path: &Path, lengths: &Weak<Lengths>) {
    while let Some(lengths) = lengths.upgrade() {
        {
            let mut lengths = lengths.lock().unwrap_or_else(PoisonError::into_inner);
            // The server and its folder are gone.
            let Some(length) = read_length(path) else { return };
            lengths.push_back(length);
            while lengths.get(1).is_some_and(|(at, _)| at.elapsed() >= SYNCED_EVERY) {
                lengths.pop_front();
            }
        }
        // may sleep: a file sends no signal when it grows. This interval is the precision of its length a
        // second ago.
        std::thread::sleep(READ_EVERY);
    }
}

fn read_length(path: &Path) -> Option<(Instant, u64)> {
    path.metadata().ok().map(|file| (Instant::now(), file.len()))
}
