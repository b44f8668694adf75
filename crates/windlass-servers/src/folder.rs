//! A folder for one server: its data, its socket, its log.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::account::Account;
use crate::port::random;

/// How much of a log goes into an error.
const LOG_LINES_MAX: usize = 30;

/// The folder is removed by whoever ends the server's processes, since it cannot go before them.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new folder below the system's folder for such things, which the account owns and nobody else may enter.
    pub(crate) fn new(owner: Account) -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("windlass-{:016x}", random()));
        let doing = format!("making the folder {}", path.display());
        DirBuilder::new().mode(0o700).create(&path).map_err(Error::io(&doing))?;
        owner.own(&path)?;
        // Processes are found by where they work, which the system tells without symbolic links.
        let path = path.canonicalize().map_err(Error::io(doing))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The log, to be written to.
    pub(crate) fn open_log(&self) -> Result<File, Error> {
        let opened = OpenOptions::new().create(true).append(true).open(self.log());
        opened.map_err(Error::io(format!("opening {}", self.log().display())))
    }

    /// All that was logged.
    pub(crate) fn read_log(&self) -> String {
        let bytes = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of the log.
    pub(crate) fn end_of_log(&self) -> String {
        let log = self.read_log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Removes all of it. A folder that is gone already is fine.
    pub(crate) fn remove(&self) {
        // Nobody could do anything about a failure here; what is left lies in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.path);
    }
}
