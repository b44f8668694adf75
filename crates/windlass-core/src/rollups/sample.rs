//! What a worker has measured since its last flush: how many attempts it began, how long they had waited
//! and how long they ran.

use std::fmt::Write;
use std::time::Duration;

use super::histogram::{Histogram, parse_number};
use crate::limits::{SAMPLE_AGE_MAX, SAMPLE_BYTES_MAX};
use crate::names::{QueueName, TypeName};

/// The measurements of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its queue.
    pub queue: QueueName,
    /// The type.
    pub job_type: TypeName,
    /// Attempts begun.
    pub started: u64,
    /// How long they had been due when they were claimed.
    pub waits: Histogram,
    /// How long the ended attempts took.
    pub runs: Histogram,
}

/// A sample as a store appends it. A store treats it as text and does not parse it: a damaged sample
/// affects nothing but itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// How long ago it was measured. A duration, so that no worker's clock is used.
    pub ago: Duration,
    /// The measurements, a line for each type.
    pub text: String,
}

/// Why a text is no sample.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected line {line} of a sample to be a queue, a type, a count and two histograms; it is damaged")]
pub struct SampleError {
    /// The line, counted from 1.
    pub line: usize,
}

impl Sample {
    /// Returns all measurements of this age, in as many parts as needed so that none is longer than
    /// [`SAMPLE_BYTES_MAX`].
    pub fn parts<'a>(ago: Duration, seen: impl IntoIterator<Item = &'a Seen>) -> Vec<Self> {
        let (ago, mut parts) = (ago.min(SAMPLE_AGE_MAX), Vec::<Self>::new());
        for line in seen.into_iter().map(line) {
            match parts.last_mut().filter(|part| part.text.len() + line.len() <= SAMPLE_BYTES_MAX) {
                Some(part) => part.text += &line,
                None => parts.push(Self { ago, text: line }),
            }
        }
        parts
    }
}

fn line(seen: &Seen) -> String {
    let Seen { queue, job_type, started, waits, runs } = seen;
    let mut line = String::new();
    let _ = writeln!(line, "{queue} {job_type} {started} {} {}", waits.encode(), runs.encode());
    line
}

/// Parses the text of a sample; as a whole or not at all.
pub fn parse(text: &str) -> Result<Vec<Seen>, SampleError> {
    let lines = text.lines().enumerate();
    lines.map(|(at, line)| parse_line(line).ok_or(SampleError { line: at + 1 })).collect()
}

fn parse_line(line: &str) -> Option<Seen> {
    let mut words = line.split(' ');
    let seen = Seen {
        queue: QueueName::parse(words.next()?).ok()?,
        job_type: TypeName::parse(words.next()?).ok()?,
        started: parse_number(words.next()?)?,
        waits: Histogram::parse(words.next()?).ok()?,
        runs: Histogram::parse(words.next()?).ok()?,
    };
    words.next().is_none().then_some(seen)
}
