//! Python interpreters for tests: one that can connect to PostgreSQL, and one that knows time zones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, programs};

const INSTALL: &str = "Debian, Ubuntu: `apt install python3-psycopg`; elsewhere: `pip install psycopg`";
const INSTALL_PYTHON: &str = "Debian, Ubuntu: `apt install python3`; it must be 3.9 or newer";

/// Returns the first Python that has the module `psycopg`. A package of the system belongs to the system's
/// Python, which need not be the first in `PATH`.
pub fn with_psycopg() -> Result<PathBuf, Error> {
    with_module("psycopg").ok_or(Error::MissingProgram { program: "python3 with psycopg", install: INSTALL })
}

/// Returns the first Python that has the module `zoneinfo`, which came with 3.9.
pub fn with_zoneinfo() -> Result<PathBuf, Error> {
    let missing = Error::MissingProgram { program: "python3 with zoneinfo", install: INSTALL_PYTHON };
    with_module("zoneinfo").ok_or(missing)
}

fn with_module(module: &str) -> Option<PathBuf> {
    programs::find_all("python3", &[PathBuf::from("/usr/bin")]).find(|python| has_module(python, module))
}

fn has_module(python: &Path, module: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {module}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
