//! The findings of the checker.

use std::fmt;

use windlass_core::job::JobId;

use super::event::Uid;

/// The findings of the checker. Only `recovered` is no fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number of jobs in the history.
    pub jobs: usize,
    /// The number of attempts.
    pub attempts: usize,
    /// Jobs that were acknowledged and are gone.
    pub lost: Vec<Finding>,
    /// Jobs that had not ended after the drain.
    pub unfinished: Vec<Finding>,
    /// Jobs that no producer enqueued.
    pub unexpected: Vec<Finding>,
    /// Jobs whose enqueue had no answer, and which are there. No fault.
    pub recovered: Vec<Finding>,
    /// Enqueues that created two jobs.
    pub stored_twice: Vec<Finding>,
    /// Jobs with more than one accepted end.
    pub ended_twice: Vec<Finding>,
    /// Accepted ends that the store does not show.
    pub forgotten_ends: Vec<Finding>,
    /// Accepted ends of lost claims.
    pub stale_accepted: Vec<Finding>,
    /// Attempts that nothing explains.
    pub unexplained_attempts: Vec<Finding>,
    /// Attempts that started before the due time.
    pub started_early: Vec<Finding>,
    /// Accepted cancels without effect.
    pub cancel_ignored: Vec<Finding>,
    /// Kills that were not counted as crashes.
    pub uncounted_crashes: Vec<Finding>,
    /// Jobs that were tried more often than allowed.
    pub over_limits: Vec<Finding>,
}

/// One job with a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The producer's name for the job.
    pub uid: Uid,
    /// The store's id of the job, if any process learnt it.
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
    /// Whether there is no fault.
    pub fn is_clean(&self) -> bool {
        self.faults().iter().all(|(_, findings)| findings.is_empty())
    }

    /// Returns every kind of fault, with its findings.
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

/// At most this number of findings of each kind is listed; a thousand lines do not help the reader.
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
