//! The end of the file to which a server writes every change. A kill does not lose what the system was given to write; a
//! power cut loses what was not synced. So the file is watched, and cut back to what it was a second before: as far as
//! syncs are apart.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Syncs are so far apart.
const SYNCED_EVERY: Duration = Duration::from_secs(1);
/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks are not further apart than this, however busy the machine is.
const GAP_MAX: Duration = Duration::from_millis(500);

/// How long the file was, and when, for as far back as is of use.
type Lengths = Mutex<VecDeque<(Instant, u64)>>;

pub(crate) struct Tail {
    path: PathBuf,
    lengths: Arc<Lengths>,
}

impl Tail {
    /// Looks at the file from now on.
    pub(crate) fn watch(folder: &Path) -> Self {
        // Redis 7 has a folder of them; earlier ones had one file.
        let names = ["appendonlydir/appendonly.aof.1.incr.aof", "appendonly.aof"];
        let path = names.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let path = path.expect("the server writes changes to a file");
        let lengths = Arc::new(Mutex::new(VecDeque::from_iter(look(&path))));
        let (file, watched) = (path.clone(), Arc::downgrade(&lengths));
        std::thread::spawn(move || look_on(&file, &watched));
        Self { path, lengths }
    }

    /// Cuts the file of a server that is gone back to what it was a second before, or when it was first looked at.
    pub(crate) fn cut_back(&self) {
        let mut lengths = self.lock();
        // While this whole program stood still nobody looked, and nobody wrote.
        let stood_still = lengths.len() > 1 && lengths[1].0 - lengths[0].0 > GAP_MAX;
        let (_, synced) = lengths[usize::from(stood_still)];
        OpenOptions::new().write(true).open(&self.path).unwrap().set_len(synced).unwrap();
        // What was seen so far says nothing of what comes.
        *lengths = VecDeque::from([(Instant::now(), synced)]);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until nobody wants to know. The first that is kept is the last one that is at least a second old.
fn look_on(path: &Path, lengths: &Weak<Lengths>) {
    while let Some(lengths) = lengths.upgrade() {
        {
            let mut lengths = lengths.lock().unwrap_or_else(PoisonError::into_inner);
            // The server and its folder are gone.
            let Some(length) = look(path) else { return };
            lengths.push_back(length);
            while lengths.get(1).is_some_and(|(at, _)| at.elapsed() >= SYNCED_EVERY) {
                lengths.pop_front();
            }
        }
        // may sleep: a file tells nobody that it grows. So precisely is known how long it was a second ago.
        std::thread::sleep(LOOK_EVERY);
    }
}

fn look(path: &Path) -> Option<(Instant, u64)> {
    path.metadata().ok().map(|file| (Instant::now(), file.len()))
}
