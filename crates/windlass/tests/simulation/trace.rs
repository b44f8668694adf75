//! The trace: a hash that distinguishes two histories, and the last events for a person.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

/// The number of last events that are kept.
const TAIL: usize = 80;

#[derive(Default)]
pub(crate) struct Trace {
    hash: u64,
    /// Whether lines are written. This costs more than the rest of the simulation, so only a replay does
    /// it.
    pub(crate) keep: bool,
    tail: VecDeque<String>,
}

impl Trace {
    pub(crate) fn note(&mut self, at: Duration, what: &impl Debug) {
        self.mix(u64::try_from(at.as_micros()).unwrap_or(u64::MAX));
        if self.keep {
            let line = format!("{:>12.6}  {what:?}", at.as_secs_f64());
            line.bytes().for_each(|byte| self.mix(byte.into()));
            if self.tail.len() >= TAIL {
                self.tail.pop_front();
            }
            self.tail.push_back(line);
        }
    }

    fn mix(&mut self, n: u64) {
        self.hash = (self.hash ^ n).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(17);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn tail(&self) -> String {
        self.tail.iter().map(|line| line.chars().take(400).collect::<String>() + "\n").collect()
    }
}
