//! Noticing what other processes commit: every commit writes to the `-wal` file, and the system tells. Whether
//! it was another's is for the writer to say, from its connection's `data_version`.

use std::io::{PipeWriter, pipe};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::writer::WriterInbox;

/// Between two looks at the store there is at least this time, however much is written.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Where the system does not tell, the store is looked at this often.
const POLL_EVERY: Duration = Duration::from_millis(10);

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
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify;

    use super::super::writer::WriterInbox;
    use super::{LOOK_EVERY, POLL_EVERY};

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
            while self.wait(ended) {
                inbox.ask_to_look();
                if let Some(fd) = &self.0 {
                    drain(fd);
                }
                let pause = if self.0.is_some() { LOOK_EVERY } else { POLL_EVERY };
                if has_ended(ended, pause) {
                    return;
                }
            }
        }

        /// Waits for a write. Answers whether the watch goes on.
        fn wait(&self, ended: &PipeReader) -> bool {
            let Some(fd) = &self.0 else { return true };
            let mut fds = [PollFd::new(fd, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => fds[1].revents().is_empty(),
                Err(error) => error == rustix::io::Errno::INTR,
            }
        }
    }

    fn drain(fd: &OwnedFd) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(fd, &mut buffer);
        while events.next().is_ok() {}
    }

    fn has_ended(ended: &PipeReader, within: Duration) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
        let mut fds = [PollFd::new(ended, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&timeout)), Ok(n) if n > 0)
    }
}

#[cfg(not(target_os = "linux"))]
mod changes {
    use std::io::PipeReader;
    use std::path::Path;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::super::writer::WriterInbox;
    use super::POLL_EVERY;

    /// Elsewhere the system does not tell, and the store is looked at often; a look is cheap.
    pub(super) struct Changes;

    impl Changes {
        pub(super) fn of(_database: &Path) -> Self {
            Self
        }

        pub(super) fn tell(self, ended: &PipeReader, inbox: &WriterInbox) {
            let timeout = Timespec { tv_sec: 0, tv_nsec: POLL_EVERY.subsec_nanos().into() };
            loop {
                let mut fds = [PollFd::new(ended, PollFlags::IN)];
                if matches!(poll(&mut fds, Some(&timeout)), Ok(n) if n > 0) {
                    return;
                }
                inbox.ask_to_look();
            }
        }
    }
}
