//! The findings of the doctor about a server.

use windlass_core::clock::Timestamp;

/// One finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The subject that was checked.
    pub about: &'static str,
    /// Its severity.
    pub grade: Grade,
    /// The finding, in a sentence.
    pub found: String,
    /// What to do about it; `None` if all is well.
    pub advice: Option<String>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// All is well.
    Good,
    /// The server does not report it, or not to this user.
    Unread,
    /// It will do harm if it goes on.
    Poor,
    /// It does harm now.
    Bad,
}

impl Finding {
    pub(crate) fn good(about: &'static str, found: String) -> Self {
        Self { about, grade: Grade::Good, found, advice: None }
    }

    /// Creates a finding, with advice unless all is well.
    pub(crate) fn new(about: &'static str, grade: Grade, found: String, advice: impl Into<String>) -> Self {
        Self { about, grade, found, advice: (grade != Grade::Good).then(|| advice.into()) }
    }

    /// Creates a finding graded by a value: poor from the first bound on, bad from the second.
    pub(crate) fn graded(
        about: &'static str,
        found: String,
        value: f64,
        (poor, bad): (f64, f64),
        advice: impl Into<String>,
    ) -> Self {
        let grade = match value {
            value if value >= bad => Grade::Bad,
            value if value >= poor => Grade::Poor,
            _ => Grade::Good,
        };
        Self::new(about, grade, found, advice)
    }
}

/// Clocks that differ by more than this make times in logs hard to compare.
const CLOCK_SECONDS: f64 = 2.0;

/// Compares a server's clock with this machine's, which was read before and after.
pub(crate) fn of_clock(server: Timestamp, before: Timestamp, after: Timestamp) -> Finding {
    let seconds = server.since(after).max(before.since(server)).as_secs_f64();
    let found = format!("the server's clock and this machine's differ by {seconds:.3} s");
    let advice = "synchronise both machines with a time server; the server's clock decides, so no job runs early or late, but times in logs do not match";
    Finding::graded("clock", found, seconds, (CLOCK_SECONDS, f64::INFINITY), advice)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_is_off_only_by_what_the_way_to_the_server_does_not_explain() {
        let at = |seconds| Timestamp::EPOCH.plus(Duration::from_secs(seconds));
        assert_eq!(of_clock(at(105), at(100), at(110)).grade, Grade::Good);
        for server in [at(90), at(120)] {
            let off = of_clock(server, at(100), at(110));
            assert_eq!(off.grade, Grade::Poor);
            assert!(off.found.contains("10.000 s"), "{off:?}");
        }
    }
}
