//! The point up to which the totals of a store are in the rollups.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::histogram::parse_number;
use crate::admin::Totals;
use crate::names::{QueueName, TypeName};

/// The totals of each type that are in the rollups already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watermark(pub BTreeMap<(QueueName, TypeName), Totals>);

impl Watermark {
    /// Returns the text, a line for each type.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for ((queue, job_type), t) in &self.0 {
            let (enqueued, succeeded, retried) = (t.enqueued, t.succeeded, t.retried);
            let _ = writeln!(
                text,
                "{queue} {job_type} {enqueued} {succeeded} {retried} {} {} {}",
                t.dead, t.cancelled, t.started_over
            );
        }
        text
    }

    /// Parses the text. `None` if it is damaged.
    pub fn parse(text: &str) -> Option<Self> {
        text.lines().map(parse_line).collect::<Option<_>>().map(Self)
    }
}

fn parse_line(line: &str) -> Option<((QueueName, TypeName), Totals)> {
    let mut words = line.split(' ');
    let key = (QueueName::parse(words.next()?).ok()?, TypeName::parse(words.next()?).ok()?);
    let mut number = || words.next().and_then(parse_number);
    let totals = Totals {
        enqueued: number()?,
        succeeded: number()?,
        retried: number()?,
        dead: number()?,
        cancelled: number()?,
        started_over: number()?,
    };
    words.next().is_none().then_some((key, totals))
}
