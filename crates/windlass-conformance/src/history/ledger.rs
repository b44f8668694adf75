//! A file that several processes append to, one line at a time, and that survives their death.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use windlass_core::clock::Timestamp;

use super::event::{Entry, Event};

/// All recorded events, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The lines.
    pub entries: Vec<Entry>,
}

/// Appends lines to a file that other processes append to as well.
///
/// Each line is one `write` to a file opened for appending, so that lines of several processes do not mix.
/// A written line survives a `kill -9`: the page cache does not die with a process, so no fsync is needed.
#[derive(Debug)]
pub struct Ledger {
    file: File,
}

/// Why a ledger could not be read.
#[derive(Debug)]
pub enum LedgerError {
    /// The file cannot be read.
    Io(io::Error),
    /// A line in the middle is no entry.
    BadLine {
        /// The number of the line, counted from 1.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl std::fmt::Display for LedgerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(_) => f.write_str("the ledger cannot be read"),
            Self::BadLine { number, why } => {
                write!(f, "expected an entry on line {number} of the ledger, got {why}")
            }
        }
    }
}

impl std::error::Error for LedgerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::BadLine { .. } => None,
        }
    }
}

impl Ledger {
    /// Opens a ledger, or creates it. A line that the death of its writer left torn is closed and marked as
    /// repaired.
    ///
    /// A line that another process is writing at this moment may look torn too, since a file may grow by a
    /// page first. The repair mark then comes after the whole line, with an empty line between, and does
    /// not concern that line.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        if !ends_with_newline(&mut file)? {
            let mark = Entry { at: Timestamp::EPOCH, event: Event::Repaired };
            file.write_all(format!("\n{}", line(&mark)?).as_bytes())?;
        }
        Ok(Self { file })
    }

    /// Appends a line. It is in the file when this returns.
    pub fn append(&self, at: Timestamp, event: Event) -> io::Result<()> {
        let line = line(&Entry { at, event })?;
        (&self.file).write_all(line.as_bytes())
    }
}

fn line(entry: &Entry) -> io::Result<String> {
    Ok(serde_json::to_string(entry)? + "\n")
}

fn ends_with_newline(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

impl History {
    /// Adds an event.
    pub fn push(&mut self, at: Timestamp, event: Event) {
        self.entries.push(Entry { at, event });
    }

    /// Reads a ledger back. A torn line is left out if it is the last line or was marked as repaired.
    pub fn read(path: &Path) -> Result<Self, LedgerError> {
        let bytes = std::fs::read(path).map_err(LedgerError::Io)?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Parses the text of a ledger.
    pub fn parse(text: &str) -> Result<Self, LedgerError> {
        let numbered = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty());
        let lines: Vec<(usize, _)> = numbered.map(|(number, line)| (number, parse_line(line))).collect();
        let mut entries = Vec::with_capacity(lines.len());
        for (index, (number, line)) in lines.iter().enumerate() {
            match line {
                Ok(entry) => entries.push(entry.clone()),
                Err(_) if may_be_torn(lines.get(index + 1).map(|(_, next)| next)) => {}
                Err(why) => return Err(LedgerError::BadLine { number: *number, why: why.clone() }),
            }
        }
        Ok(Self { entries })
    }
}

fn parse_line(line: &str) -> Result<Entry, String> {
    serde_json::from_str(line).map_err(|error| error.to_string())
}

fn may_be_torn(next: Option<&Result<Entry, String>>) -> bool {
    next.is_none_or(|next| next.as_ref().is_ok_and(|entry| entry.event == Event::Repaired))
}
