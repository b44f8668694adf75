//! A Python that can talk to PostgreSQL, for tests of clients in another language.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, programs};

const INSTALL: &str = "Debian, Ubuntu: `apt install python3-psycopg`; elsewhere: `pip install psycopg`";

/// The first Python that has the module `psycopg`. A package of the system belongs to the system's Python, which need
/// not be the first in `PATH`.
pub fn with_psycopg() -> Result<PathBuf, Error> {
    let found =
        programs::find_all("python3", &[PathBuf::from("/usr/bin")]).find(|python| has_psycopg(python));
    found.ok_or(Error::MissingProgram { program: "python3 with psycopg", install: INSTALL })
}

fn has_psycopg(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import psycopg"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
