//! The output of a command. Data goes to standard output, as a table for people or as JSON for programs.
//! Everything else goes to standard error.

use std::io::{IsTerminal, Write};

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::job::JobState;

use crate::config::Position;
use crate::exit::{Code, Failure};

/// The narrowest terminal that is filled exactly; some terminals report a width of 0.
const WIDTH_MIN: u16 = 40;
/// The minimum width of the last column when it is broken.
const LAST_COLUMN_MIN: u16 = 24;

/// The streams to which a command prints, and how it prints.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    colour: bool,
    on_terminal: bool,
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
}

impl Output {
    /// The output of this process, to a terminal or a pipe.
    pub(crate) fn of_process(json: bool, quiet: bool, no_color: bool) -> Self {
        let on_terminal = std::io::stdout().is_terminal();
        Self {
            json,
            quiet,
            colour: allows_colour(no_color) && on_terminal,
            on_terminal,
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        }
    }

    /// An output for tests: no colour, into the given writers.
    #[cfg(test)]
    pub(crate) fn into_writers(
        json: bool,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Self {
        let (stdout, stderr) = (Box::new(stdout), Box::new(stderr));
        Self { json, quiet: false, colour: false, on_terminal: false, stdout, stderr }
    }

    /// Whether the output is JSON, for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of data.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        Ok(writeln!(self.stdout, "{}", text.as_ref())?)
    }

    /// Prints a value as JSON, over several lines.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|why| Failure::new(Code::Failed, format!("writing the answer as JSON failed: {why}")))?;
        self.line(text)
    }

    /// Prints a value as JSON on one line, for streams.
    pub(crate) fn json_line(&mut self, value: &Value) -> Result<(), Failure> {
        Ok(writeln!(self.stdout, "{value}")?)
    }

    /// Prints data in the requested form.
    pub(crate) fn either(&mut self, value: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { self.json(value) } else { self.line(text()) }
    }

    /// Prints a table for people. Without rows, the text `empty` goes to standard error.
    pub(crate) fn table(
        &mut self,
        mut header: &[&str],
        mut rows: Vec<Vec<Cell>>,
        empty: &str,
    ) -> Result<(), Failure> {
        if rows.is_empty() {
            self.note(empty);
            return Ok(());
        }
        // A last column without any text takes space that a terminal may not have.
        if self.on_terminal && rows.iter().all(|row| row.last().is_some_and(|cell| cell.content().is_empty()))
        {
            header = &header[..header.len() - 1];
            rows.iter_mut().for_each(|row| drop(row.pop()));
        }
        let mut table = self.styled();
        table.set_header(header.iter().map(|title| self.title(title)));
        table.add_rows(rows);
        self.line(spaced(table))
    }

    /// Prints names and values, one pair a line.
    pub(crate) fn pairs(&mut self, pairs: Vec<(&str, Cell)>) -> Result<(), Failure> {
        let mut table = self.styled();
        for (name, value) in pairs {
            table.add_row(vec![self.title(name), value]);
        }
        self.line(spaced(table))
    }

    fn styled(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.colour {
            table.enforce_styling();
        }
        if !self.on_terminal {
            // Off a terminal lines are never broken, so that `grep` and `cut` see whole rows.
            table.force_no_tty();
        }
        table
    }

    fn title(&self, text: &str) -> Cell {
        if self.colour { Cell::new(text).add_attribute(Attribute::Bold) } else { Cell::new(text) }
    }

    /// Prints a remark that is not data, unless `--quiet` is given.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        if !self.quiet && !text.as_ref().is_empty() {
            self.complain(text);
        }
    }

    /// Prints a refused part of the work, while the rest continues.
    pub(crate) fn complain(&mut self, text: impl AsRef<str>) {
        // Errors are ignored: a broken standard error cannot be reported anywhere.
        let _ = writeln!(self.stderr, "{}", text.as_ref());
    }

    /// Prints the reason why the command failed.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        let text = if self.json { failure_json(failure).to_string() } else { failure_text(failure) };
        let _ = writeln!(self.stderr, "{text}");
    }

    /// The cell of a job state, in its colour.
    pub(crate) fn job_state(&self, job_state: JobState) -> Cell {
        let cell = Cell::new(job_state);
        if !self.colour {
            return cell;
        }
        cell.fg(match job_state {
            JobState::Ready => Color::Cyan,
            JobState::Scheduled | JobState::Parked => Color::Yellow,
            JobState::Running => Color::Blue,
            JobState::Succeeded => Color::Green,
            JobState::Dead => Color::Red,
            JobState::Cancelled => Color::DarkGrey,
        })
    }
}

/// Whether colours are allowed. Whether a terminal can show them is a separate question.
pub(crate) fn allows_colour(no_color: bool) -> bool {
    !no_color && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

/// Formats a table. Columns start at the left edge, two spaces apart. On a terminal the last column, which
/// holds the long texts, is broken to fit; the others never are, since half a word is useless.
fn spaced(mut table: Table) -> String {
    let columns = table.column_count();
    if table.width().is_some_and(|width| width >= WIDTH_MIN) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_constraint(match index + 1 < columns {
            true => ColumnConstraint::ContentWidth,
            false => ColumnConstraint::LowerBoundary(Width::Fixed(LAST_COLUMN_MIN)),
        });
    }
    table.trim_fmt()
}

/// Replaces control characters in a text from outside, which could otherwise command a terminal.
pub(crate) fn printable(text: &str) -> String {
    let show = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(show).collect()
}

fn failure_text(failure: &Failure) -> String {
    if failure.code == Code::Configuration && !failure.errors.is_empty() {
        let lines: Vec<_> = failure.errors.iter().map(ToString::to_string).collect();
        return lines.join("\n");
    }
    match &failure.hint {
        Some(hint) => format!("error: {}\n  {hint}", failure.message),
        None => format!("error: {}", failure.message),
    }
}

fn failure_json(failure: &Failure) -> Value {
    let mut error = json!({
        "code": failure.code.name(),
        "message": failure.message,
        "hint": failure.hint,
    });
    if !failure.errors.is_empty() {
        error["errors"] = failure.errors.iter().map(error_json).collect();
    }
    json!({ "error": error })
}

fn error_json(error: &crate::config::ConfigError) -> Value {
    let mut value = json!({ "message": error.message, "hint": error.hint });
    match &error.position {
        Some(Position::File { file, line, column }) => {
            value["file"] = json!(**file);
            value["line"] = json!(line);
            value["column"] = json!(column);
        }
        Some(Position::Env(name)) => value["variable"] = json!(**name),
        None => {}
    }
    value
}
