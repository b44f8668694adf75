//! Ordering keys: jobs of one type and one name run one at a time, in the order in which they were put in.
//!
//! One job of an ordering key is *out*: it waits for a worker, for its time or for a policy, or it runs. The others are in line, parked
//! behind the gate of the ordering key. Whatever becomes of the one that is out, it stays so until it has ended; so a retry, a crash
//! or an open breaker lets nobody pass. Once it has ended, in whatever way, the oldest in line goes out.

use crate::gate::{Gate, gate_by_history};
use crate::job::{Counters, JobId};
use crate::names::{OrderingKey, TypeName};

/// Who goes out next. `out` is the job of the ordering key that is out, if there is one; `oldest` the one with the lowest number in line.
pub fn next_out(out: Option<JobId>, oldest: Option<JobId>) -> Option<JobId> {
    match out {
        Some(_) => None,
        None => oldest,
    }
}

/// Behind which gate a job waits that is put in or started over, if one of its ordering key is out (`out`) or not.
pub fn gate_of_newcomer(job_type: &TypeName, ordering_key: &OrderingKey, out: Option<JobId>) -> Option<Gate> {
    out.map(|_| Gate::ordering_key(job_type, ordering_key))
}

/// Behind which gate a waiting job goes on if a person wants it to be due at once. That opens every gate but that of an ordering key,
/// which keeps others in order.
pub fn gate_if_hurried(gate: Option<&Gate>, counters: &Counters) -> Option<Gate> {
    match gate.filter(|gate| gate.is_of_ordering_key()) {
        Some(gate) => Some(gate.clone()),
        None => gate_by_history(counters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_out_when_nobody_is_and_only_then() {
        assert_eq!(next_out(None, Some(JobId(3))), Some(JobId(3)));
        assert_eq!(next_out(Some(JobId(1)), Some(JobId(3))), None);
        assert_eq!(next_out(Some(JobId(9)), Some(JobId(3))), None, "a younger one that is out stays out");
        assert_eq!(next_out(None, None), None);
    }

    #[test]
    fn a_newcomer_waits_in_line_if_somebody_is_out() {
        let (job_type, ordering_key) = (TypeName::parse("t").unwrap(), OrderingKey::parse("a:b").unwrap());
        assert_eq!(gate_of_newcomer(&job_type, &ordering_key, None), None);
        let gate = gate_of_newcomer(&job_type, &ordering_key, Some(JobId(1))).unwrap();
        assert_eq!((gate.as_str(), gate.is_of_ordering_key()), ("ordering_key:t:a:b", true));
    }

    #[test]
    fn hurry_opens_every_gate_but_that_of_an_ordering_key() {
        let crashed = Counters { crashes: 1, ..Counters::default() };
        let line = Gate::named("ordering_key:t:a");
        assert_eq!(gate_if_hurried(Some(&line), &crashed), Some(line.clone()));
        assert_eq!(gate_if_hurried(Some(&Gate::named("breaker:b")), &Counters::default()), None);
        assert_eq!(gate_if_hurried(None, &crashed), Some(Gate::suspect()));
    }
}
