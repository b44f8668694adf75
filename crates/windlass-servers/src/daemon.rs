//! A server program with a folder of its own: the parts that PostgreSQL, Redis and PgBouncer have in
//! common.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::account::Account;
use crate::folder::Folder;
use crate::watchdog::Watchdog;
use crate::{Error, processes, wait};

/// Says whether a server accepts connections already.
pub(crate) type IsReady<'a> = &'a dyn Fn(&Daemon) -> bool;

#[derive(Debug)]
pub(crate) struct Daemon {
    account: Account,
    folder: Folder,
    watchdog: Watchdog,
    child: Option<Child>,
}

impl Daemon {
    /// Creates a folder and its watchdog; no server runs yet.
    pub(crate) fn new() -> Result<Self, Error> {
        let account = Account::for_servers()?;
        let folder = Folder::new(account)?;
        let watchdog = Watchdog::start(folder.path()).inspect_err(|_| folder.remove())?;
        Ok(Self { account, folder, watchdog, child: None })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder, for the server to read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.path().join(name);
        std::fs::write(&path, text).map_err(Error::io(format!("writing {}", path.display())))?;
        self.account.own(&path)?;
        Ok(path)
    }

    pub(crate) fn log(&self) -> String {
        self.folder.read_log()
    }

    pub(crate) fn wait_for_children(&self) -> Result<(), Error> {
        self.watchdog.wait_for_children()
    }

    /// Returns the process that was started, while it exists.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Pid::from_child)
    }

    /// Makes a command run for the server: inside its folder, under its account, with empty input, and with
    /// messages in the language in which `is_ready` and the tests search for them.
    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        self.account.run_as(command).current_dir(self.path()).stdin(Stdio::null()).env("LC_ALL", "C")
    }

    /// Runs a program to its end, as a preparation.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = self.prepare(command).output().map_err(Error::io(format!("starting {program}")))?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(Error::Failed { program, output: String::from_utf8_lossy(&text).into_owned() })
    }

    /// Starts the server and waits until it is ready.
    pub(crate) fn start(
        &mut self,
        command: &mut Command,
        ready_max: Duration,
        is_ready: IsReady<'_>,
    ) -> Result<(), Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (log, errors) = (self.folder.open_log()?, self.folder.open_log()?);
        // The server gets a process group of its own. If the shell that started the tests exits, the system
        // resumes every stopped process in the group of the tests; a frozen server among them would run
        // again.
        let command = self.prepare(command).stdout(log).stderr(errors).process_group(0);
        self.child = Some(command.spawn().map_err(Error::io(format!("starting {program}")))?);
        let ready = wait::until(ready_max, || {
            if self.has_ended()? {
                return Err(Error::Failed { program: program.clone(), output: self.folder.end_of_log() });
            }
            Ok(is_ready(self).then_some(()))
        })?;
        ready.ok_or_else(|| self.too_slow(format!("{program} to take connections"), ready_max))
    }

    /// Whether no server process runs. Reaps a process that has ended, so that it does not stay as a
    /// zombie.
    pub(crate) fn has_ended(&mut self) -> Result<bool, Error> {
        let Some(child) = &mut self.child else { return Ok(true) };
        let ended = child.try_wait().map_err(Error::io("checking whether the server has ended"))?.is_some();
        if ended {
            self.child = None;
        }
        Ok(ended)
    }

    /// Sends the server a signal to end, and waits until it and all its processes have ended.
    pub(crate) fn ask_to_end(&mut self, signal: Signal, limit: Duration) -> Result<(), Error> {
        let Some(pid) = self.pid() else { return Ok(()) };
        // A frozen process would not receive the signal.
        self.thaw()?;
        processes::signal(pid, signal)?;
        let ended = wait::until(limit, || {
            Ok((self.has_ended()? && processes::inside(self.path())?.is_empty()).then_some(()))
        })?;
        ended.ok_or_else(|| self.too_slow(format!("the server to end after {signal:?}"), limit))
    }

    /// Kills all processes at once, as a power cut would.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        processes::kill(self.path())?;
        if let Some(mut child) = self.child.take() {
            // The process may have died before it changed to the folder.
            child.kill().map_err(Error::io("killing the server"))?;
            child.wait().map_err(Error::io("waiting for the server's end"))?;
        }
        Ok(())
    }

    pub(crate) fn freeze(&self) -> Result<(), Error> {
        processes::freeze(self.path())
    }

    pub(crate) fn thaw(&self) -> Result<(), Error> {
        processes::thaw(self.path())
    }

    fn too_slow(&self, expected: String, waited: Duration) -> Error {
        Error::TooSlow { expected, waited, log: self.folder.end_of_log() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // If this fails, the watchdog tries again when this process ends.
        if self.kill().is_ok() {
            self.folder.remove();
            self.watchdog.dismiss();
        }
    }
}
