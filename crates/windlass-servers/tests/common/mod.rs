//! Checks that the tests of all servers share.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Counts the processes that work inside a folder.
#[allow(dead_code, reason = "a proxy has no processes")]
pub(crate) fn processes_in(folder: &Path) -> usize {
    let links = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cwd"));
    links.filter(|link| fs::read_link(link).is_ok_and(|place| place.starts_with(folder))).count()
}

/// Waits until a condition holds, and fails if it never does.
#[allow(dead_code, reason = "not every test program waits")]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "expected within {LIMIT:?}: {what}");
        // may sleep: other processes send no signal when they end
        std::thread::sleep(Duration::from_millis(10));
    }
}
