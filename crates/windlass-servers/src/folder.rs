//! The folder of one server: its data, its socket, its log.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::account::Account;
use crate::port::random;

/// The largest number of log lines in an error.
const LOG_LINES_MAX: usize = 30;

/// The folder of a server. The code that ends the server's processes removes it, since it cannot go before
/// them.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates a folder below the system's temporary folder. The account owns it, and no other account may
    /// enter it.
    pub(crate) fn new(owner: Account) -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("windlass-{:016x}", random()));
        let doing = format!("creating the folder {}", path.display());
        DirBuilder::new().mode(0o700).create(&path).map_err(Error::io(&doing))?;
        owner.own(&path)?;
        // Processes are found by their working directory, which the system reports without symbolic links.
        let path = path.canonicalize().map_err(Error::io(doing))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the log for writing.
    pub(crate) fn open_log(&self) -> Result<File, Error> {
        let opened = OpenOptions::new().create(true).append(true).open(self.log());
        opened.map_err(Error::io(format!("opening {}", self.log().display())))
    }

    /// Returns the whole log.
    pub(crate) fn read_log(&self) -> String {
        let bytes = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the last lines of the log.
    pub(crate) fn end_of_log(&self) -> String {
        let log = self.read_log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Removes the folder and its contents. A folder that is gone already is no error.
    pub(crate) fn remove(&self) {
        // The caller cannot act on a failure here; the remains stay in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}
