//! A directory for the files of a measurement, removed at the end.

use std::path::{Path, PathBuf};

use crate::exit::{Code, Failure};

pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(parent: &Path) -> Result<Self, Failure> {
        let path = parent.join(format!("windlass-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|why| {
            Failure::new(Code::Failed, format!("{} cannot be made: {why}", path.display()))
                .hint("name a directory that can be written to with --dir")
        })?;
        Ok(Self(path))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.db"))
    }

    /// Removes a database and what lies beside it.
    pub(super) fn remove(&self, file: &Path) {
        for suffix in ["", "-wal", "-shm"] {
            // Nothing depends on it: all of it goes at the end.
            let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it: a directory that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
