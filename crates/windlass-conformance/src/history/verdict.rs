//! What the checker found.

use std::fmt;

use windlass_core::job::JobId;

use super::event::Uid;

/// What the checker found. Only `recovered` is no fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many jobs the history speaks of.
    pub jobs: usize,
    /// How many attempts.
    pub attempts: usize,
    /// Acknowledged and gone.
    pub lost: Vec<Finding>,
    /// Not ended after the drain.
    pub unfinished: Vec<Finding>,
    /// Nobody put it in.
    pub unexpected: Vec<Finding>,
    /// Put in without an answer, and there. No fault.
    pub recovered: Vec<Finding>,
    /// One enqueue, two jobs.
    pub stored_twice: Vec<Finding>,
    /// More than one accepted end.
    pub ended_twice: Vec<Finding>,
    /// An accepted end that the store does not know.
    pub forgotten_ends: Vec<Finding>,
    /// Ends of lost claims that were accepted.
    pub stale_accepted: Vec<Finding>,
    /// Attempts that nothing explains.
    pub unexplained_attempts: Vec<Finding>,
    /// Started before due.
    pub started_early: Vec<Finding>,
    /// Accepted cancels without effect.
    pub cancel_ignored: Vec<Finding>,
    /// Kills that were not counted.
    pub uncounted_crashes: Vec<Finding>,
    /// Tried more often than allowed.
    pub over_limits: Vec<Finding>,
}

/// One offender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The producer's name for the job.
    pub uid: Uid,
    /// The store's number, if anybody learnt it.
    pub job: Option<JobId>,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            Some(job) => write!(f, "{} (job {job}): {}", self.uid, self.text),
            None => write!(f, "{}: {}", self.uid, self.text),
        }
    }
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.faults().iter().all(|(_, findings)| findings.is_empty())
    }

    /// Every kind of fault, with its offenders.
    pub fn faults(&self) -> [(&'static str, &[Finding]); 12] {
        [
            ("lost", &self.lost),
            ("unfinished", &self.unfinished),
            ("unexpected", &self.unexpected),
            ("stored twice", &self.stored_twice),
            ("ended twice", &self.ended_twice),
            ("forgotten ends", &self.forgotten_ends),
            ("stale accepted", &self.stale_accepted),
            ("unexplained attempts", &self.unexplained_attempts),
            ("started early", &self.started_early),
            ("cancel ignored", &self.cancel_ignored),
            ("uncounted crashes", &self.uncounted_crashes),
            ("over limits", &self.over_limits),
        ]
    }
}

/// So many offenders of one kind are named; a thousand lines help nobody.
const NAMED_MAX: usize = 20;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (jobs, attempts, recovered) = (self.jobs, self.attempts, self.recovered.len());
        writeln!(f, "{jobs} jobs, {attempts} attempts, {recovered} recovered")?;
        for (kind, findings) in self.faults() {
            if findings.is_empty() {
                continue;
            }
            writeln!(f, "{kind}: {}", findings.len())?;
            for finding in findings.iter().take(NAMED_MAX) {
                writeln!(f, "  {finding}")?;
            }
            if findings.len() > NAMED_MAX {
                writeln!(f, "  and {} more", findings.len() - NAMED_MAX)?;
            }
        }
        if self.is_clean() { f.write_str("nothing wrong") } else { Ok(()) }
    }
}
