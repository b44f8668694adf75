//! Queries a server with `psql`, so that this crate needs no driver.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::Error;

/// All arguments but the address: no configuration of the user, rows only, and a stop at the first error.
pub(super) const ARGUMENTS: [&str; 9] = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d"];

pub(super) fn run(psql: &Path, url: &str, sql: &str) -> Result<String, Error> {
    let mut command = Command::new(psql);
    command.args(ARGUMENTS).arg(url);
    forget_settings(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(Error::io(format!("starting {}", psql.display())))?;
    let output = talk(child, sql).map_err(Error::io("talking to psql"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed { program: "psql".to_owned(), output: errors });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}

/// Removes variables such as PGOPTIONS, which are meant for the caller's own servers.
pub(super) fn forget_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
}

/// Writes and reads at the same time: otherwise a long answer would block a long query.
fn talk(mut child: Child, sql: &str) -> std::io::Result<Output> {
    let mut input = child.stdin.take().expect("the input was opened as a pipe");
    std::thread::scope(|scope| {
        // `psql` may end at an error before it has read the whole input; its exit code reports the error.
        scope.spawn(move || drop(input.write_all(sql.as_bytes())));
        child.wait_with_output()
    })
}

/// Quotes a name as an SQL identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
