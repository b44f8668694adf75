//! A program that keeps a session with a server: `psql`, as a person would use it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::programs::Programs;
use super::psql;
use crate::Error;

/// The text that marks the end of an answer.
const END: &str = "-- that is all --";

/// A running `psql`. Dropping it ends the process.
#[derive(Debug)]
pub struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    /// Connects to any server.
    pub fn start(url: &str) -> Result<Self, Error> {
        let mut command = Command::new(Programs::find()?.psql);
        command.args(psql::ARGUMENTS).arg(url);
        psql::forget_settings(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::io("starting psql"))?;
        let input = child.stdin.take().expect("the input was opened as a pipe");
        let output = child.stdout.take().expect("the output was opened as a pipe");
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Sends whole lines and does not wait for their answers.
    pub fn send(&mut self, sql: &str) -> Result<(), Error> {
        writeln!(self.input, "{sql}").map_err(Error::io("talking to psql"))
    }

    /// Runs SQL and returns the rows, without headings, columns separated by `|`. At an error, `psql`
    /// prints the error and ends.
    pub fn run(&mut self, sql: &str) -> Result<String, Error> {
        self.send(&format!("{sql}\n\\echo {END}"))?;
        let mut rows = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(Error::io("reading from psql"))? == 0 {
                return Err(Error::Failed { program: "psql".to_owned(), output: rows });
            }
            if line.trim_end() == END {
                return Ok(rows.trim_end_matches('\n').to_owned());
            }
            rows.push_str(&line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
