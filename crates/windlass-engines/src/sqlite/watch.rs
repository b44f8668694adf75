//! Noticing what other processes commit: every commit writes to the `-wal` file, and the system tells. Whether
//! it was another's is for the writer to say, from its connection's `data_version`.
//!
//! The write comes before the commit: only after a sync of the disk others can see it. So the store is looked
//! at several times after each write, soon at first and then less often.

use std::io::{PipeReader, PipeWriter, pipe};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::writer::WriterInbox;

/// Milliseconds between a write and the first look at the store, from there to the second one, and so on. A
/// new write starts over; the first of these is also the least time between two looks.
#[cfg(target_os = "linux")]
const LOOK_AFTER_MILLIS: [i64; 8] = [2, 3, 5, 8, 30, 100, 300, 900];
/// Where the system does not tell, the store is looked at this often.
const POLL_EVERY_MILLIS: i64 = 10;

/// A watch, as long as it is kept.
pub(super) struct Watch {
    /// Dropping it wakes and ends the thread.
    alive: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Asks the writer to look whenever somebody wrote to the database at this path.
    pub(super) fn start(database: &Path, inbox: Arc<WriterInbox>) -> std::io::Result<Self> {
        let (ended, alive) = pipe()?;
        let changes = Changes::of(database);
        let thread = std::thread::Builder::new()
            .name("windlass-watch".to_owned())
            .spawn(move || changes.tell(&ended, &inbox))?;
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
    use super::{LOOK_AFTER_MILLIS, POLL_EVERY_MILLIS, has_ended, millis, poll_forever};

    /// Where the system tells of writes to the `-wal` file; nothing if it does not.
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

        pub(super) fn tell(self, ended: &PipeReader, inbox: &WriterInbox) {
            let Some(fd) = &self.0 else { return poll_forever(ended, inbox, POLL_EVERY_MILLIS) };
            // Begins with looks, since something may have been written before the watch began.
            let mut looks = 0;
            loop {
                let heard = match LOOK_AFTER_MILLIS.get(looks) {
                    // Writes that follow at once must not put the look off for ever.
                    Some(first) if looks == 0 && has_ended(ended, *first) => Heard::End,
                    Some(_) if looks == 0 => Heard::Nothing,
                    Some(later) => listen(fd, ended, Some(*later)),
                    None => listen(fd, ended, None),
                };
                match heard {
                    Heard::End => return,
                    Heard::Write => {
                        drain(fd);
                        looks = 0;
                    }
                    Heard::Nothing => {
                        inbox.ask_to_look();
                        looks = if drain(fd) { 0 } else { looks + 1 };
                    }
                }
            }
        }
    }

    enum Heard {
        Write,
        Nothing,
        End,
    }

    /// Waits for a write, for so long or for ever.
    fn listen(fd: &OwnedFd, ended: &PipeReader, within: Option<i64>) -> Heard {
        let mut fds = [PollFd::new(fd, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut fds, within.map(millis).as_ref()) {
            Ok(_) if !fds[1].revents().is_empty() => Heard::End,
            Ok(_) if !fds[0].revents().is_empty() => Heard::Write,
            _ => Heard::Nothing,
        }
    }

    /// Answers whether anything was written since the last time.
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

    /// Elsewhere the system does not tell, and the store is looked at often; a look is cheap.
    pub(super) struct Changes;

    impl Changes {
        pub(super) fn of(_database: &Path) -> Self {
            Self
        }

        pub(super) fn tell(self, ended: &PipeReader, inbox: &WriterInbox) {
            poll_forever(ended, inbox, POLL_EVERY_MILLIS);
        }
    }
}

fn poll_forever(ended: &PipeReader, inbox: &WriterInbox, every: i64) {
    while !has_ended(ended, every) {
        inbox.ask_to_look();
    }
}

/// Whether the watch ends within so many milliseconds.
fn has_ended(ended: &PipeReader, within: i64) -> bool {
    let mut fds = [PollFd::new(ended, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&millis(within))), Ok(n) if n > 0)
}

fn millis(millis: i64) -> Timespec {
    Timespec { tv_sec: millis / 1_000, tv_nsec: millis % 1_000 * 1_000_000 }
}
