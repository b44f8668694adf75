//! Detection of other processes' commits: every commit writes to the `-wal` file, and the system reports
//! it. The writer decides by its connection's `data_version` whether the commit was another's.
//!
//! The write comes before the commit: others can see it only after a sync of the disk. So the store is
//! checked several times after each write, soon at first and then less often.

use std::io::{PipeReader, PipeWriter, pipe};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::writer::WriterInbox;

/// Milliseconds between a write and the first check of the store, from there to the second one, and so on.
/// A new write starts over; the first of these is also the minimum time between two checks.
#[cfg(target_os = "linux")]
const CHECK_AFTER_MILLIS: [i64; 8] = [2, 3, 5, 8, 30, 100, 300, 900];
/// The interval of checks where the system does not report writes.
const POLL_EVERY_MILLIS: i64 = 10;

/// A watch, as long as it is kept.
pub(super) struct Watch {
    /// Dropping it wakes and ends the thread.
    alive: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Requests a check of the writer whenever a process has written to the database at this path.
    pub(super) fn start(database: &Path, inbox: Arc<WriterInbox>) -> std::io::Result<Self> {
        let (ended, alive) = pipe()?;
        let changes = Changes::of(database);
        let thread = std::thread::Builder::new()
            .name("windlass-watch".to_owned())
            .spawn(move || changes.watch(&ended, &inbox))?;
        Ok(Self { alive: Some(alive), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

use changes::Changes;

#[cfg(target_os = "linux")]
mod changes {
    use std::ffi::OsString;
    use std::io::PipeReader;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::inotify;

    use super::super::writer::WriterInbox;
    use super::{CHECK_AFTER_MILLIS, POLL_EVERY_MILLIS, has_ended, millis, poll_forever};

    /// The descriptor on which the system reports writes to the `-wal` file; `None` if it does not.
    pub(super) struct Changes(Option<OwnedFd>);

    impl Changes {
        pub(super) fn of(database: &Path) -> Self {
            let mut wal = OsString::from(database);
            wal.push("-wal");
            let watch = || {
                let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
                inotify::add_watch(&fd, Path::new(&wal), inotify::WatchFlags::MODIFY)?;
                Ok::<_, rustix::io::Errno>(fd)
            };
            Self(watch().ok())
        }

        pub(super) fn watch(self, ended: &PipeReader, inbox: &WriterInbox) {
            let Some(fd) = &self.0 else { return poll_forever(ended, inbox, POLL_EVERY_MILLIS) };
            // Starts with checks, since a write may have come before the watch began.
            let mut checks = 0;
            loop {
                let event = match CHECK_AFTER_MILLIS.get(checks) {
                    // Writes in quick succession must not postpone the check for ever.
                    Some(first) if checks == 0 && has_ended(ended, *first) => WatchEvent::End,
                    Some(_) if checks == 0 => WatchEvent::Timeout,
                    Some(later) => listen(fd, ended, Some(*later)),
                    None => listen(fd, ended, None),
                };
                match event {
                    WatchEvent::End => return,
                    WatchEvent::Write => {
                        drain(fd);
                        checks = 0;
                    }
                    WatchEvent::Timeout => {
                        inbox.request_check();
                        checks = if drain(fd) { 0 } else { checks + 1 };
                    }
                }
            }
        }
    }

    enum WatchEvent {
        Write,
        Timeout,
        End,
    }

    /// Waits for a write, within a time limit or for ever.
    fn listen(fd: &OwnedFd, ended: &PipeReader, within: Option<i64>) -> WatchEvent {
        let mut fds = [PollFd::new(fd, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut fds, within.map(millis).as_ref()) {
            Ok(_) if !fds[1].revents().is_empty() => WatchEvent::End,
            Ok(_) if !fds[0].revents().is_empty() => WatchEvent::Write,
            _ => WatchEvent::Timeout,
        }
    }

    /// Returns whether there was a write since the last time.
    fn drain(fd: &OwnedFd) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(fd, &mut buffer);
        let mut wrote = false;
        while events.next().is_ok() {
            wrote = true;
        }
        wrote
    }
}

#[cfg(not(target_os = "linux"))]
mod changes {
    use std::io::PipeReader;
    use std::path::Path;

    use super::super::writer::WriterInbox;
    use super::{POLL_EVERY_MILLIS, poll_forever};

    /// Elsewhere the system does not report writes, and the store is checked often; a check is cheap.
    pub(super) struct Changes;

    impl Changes {
        pub(super) fn of(_database: &Path) -> Self {
            Self
        }

        pub(super) fn watch(self, ended: &PipeReader, inbox: &WriterInbox) {
            poll_forever(ended, inbox, POLL_EVERY_MILLIS);
        }
    }
}

fn poll_forever(ended: &PipeReader, inbox: &WriterInbox, every: i64) {
    while !has_ended(ended, every) {
        inbox.request_check();
    }
}

/// Whether the watch ends within this number of milliseconds.
fn has_ended(ended: &PipeReader, within: i64) -> bool {
    let mut fds = [PollFd::new(ended, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&millis(within))), Ok(n) if n > 0)
}

fn millis(millis: i64) -> Timespec {
    Timespec { tv_sec: millis / 1_000, tv_nsec: millis % 1_000 * 1_000_000 }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::CHECK_AFTER_MILLIS;

    #[test]
    fn four_checks_follow_a_write_within_twenty_milliseconds() {
        assert!(CHECK_AFTER_MILLIS[..4].iter().sum::<i64>() < 20, "{CHECK_AFTER_MILLIS:?}");
    }
}
