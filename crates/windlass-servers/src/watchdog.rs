//! Removes a server whose owner is gone.
//!
//! A value in a `static` is never dropped, and a process that is killed drops nothing. So a small shell, in
//! a process group of its own that Ctrl-C does not reach, holds one end of a pipe. When the other end
//! closes, for any reason, the shell ends the server. Guarded by the tests in `tests/leftovers.rs`.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::Error;

#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    lifeline: ChildStdin,
}

impl Watchdog {
    /// Starts to watch a folder.
    pub(crate) fn start(folder: &Path) -> Result<Self, Error> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", include_str!("watchdog.sh"), "watchdog"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // It does not run in the caller's folder, which another process may want to remove.
        let mut shell =
            command.current_dir("/").process_group(0).spawn().map_err(Error::io("starting /bin/sh"))?;
        let lifeline = shell.stdin.take().expect("the input was opened as a pipe");
        Ok(Self { shell, lifeline })
    }

    /// Makes every child of this process keep the server alive too, from now on.
    pub(crate) fn wait_for_children(&self) -> Result<(), Error> {
        let kept = fcntl_setfd(&self.lifeline, FdFlags::empty()).map_err(std::io::Error::from);
        kept.map_err(Error::io("passing the pipe on to children"))
    }

    /// Ends the watchdog, since nothing is left to remove. Does not wait for children that hold the pipe
    /// too.
    pub(crate) fn dismiss(&mut self) {
        // If the shell is gone, no process reads this and there is nothing to wait for.
        let _ = self.lifeline.write_all(b"done\n");
        let _ = self.shell.wait();
    }
}
