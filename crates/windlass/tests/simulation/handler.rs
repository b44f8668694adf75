//! Simulated handlers. What a handler does depends only on the seed, the job and how many times the job has
//! run.

use std::time::Duration;

use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};

use crate::plan::Pace;
use crate::test_rng::TestRng;

/// How one run of a handler goes if no fault or cancel interrupts it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) lasts: Duration,
    pub(crate) ends: Ends,
    /// Whether it stops when it is asked to.
    pub(crate) listens: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Ends {
    With(AttemptOutcome),
    /// It kills its whole process.
    KillsItsProcess,
}

impl Script {
    pub(crate) fn of(seed: u64, job: i64, run: u64, pace: Pace) -> Self {
        let mut character = TestRng::of(seed, 7_000_000 + job.unsigned_abs());
        let killer = character.per_mille(15);
        let mut rng = TestRng::of(seed, 9_000_000 + job.unsigned_abs() * 64 + run);
        let lasts = match pace {
            Pace::Fast => rng.micros(500, 8_000),
            Pace::Mixed if rng.per_mille(500) => rng.millis(1, 40),
            Pace::Mixed => rng.millis(40, 4_000),
            Pace::Slow if rng.per_mille(300) => rng.millis(10_000, 95_000),
            Pace::Slow => rng.millis(10, 3_000),
        };
        let ends = if killer { Ends::KillsItsProcess } else { ends(&mut rng) };
        Self { lasts, ends, listens: rng.per_mille(600) }
    }
}

fn ends(rng: &mut TestRng) -> Ends {
    let error = || JobError::new(ErrorKind::Failed, "chosen by the seed");
    Ends::With(match rng.below(100) {
        0..=73 => AttemptOutcome::Done(None),
        74..=83 => AttemptOutcome::Failed(error()),
        84..=86 => AttemptOutcome::RetryIn(rng.millis(10, 20_000), error()),
        87..=91 => AttemptOutcome::Snooze(rng.millis(10, 20_000)),
        92..=94 => AttemptOutcome::Dead(error()),
        95..=97 => AttemptOutcome::Discard("no longer wanted".to_owned()),
        98 => return Ends::KillsItsProcess,
        _ => AttemptOutcome::Failed(JobError::new(ErrorKind::Panicked, "a panic, chosen by the seed")),
    })
}
