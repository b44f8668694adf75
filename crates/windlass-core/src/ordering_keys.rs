//! Ordering keys: jobs of one type and one name run one at a time, in the order of their enqueue.
//!
//! One job of an ordering key is *out*, at the head: it waits for a worker, for its due time or for a
//! policy, or it runs. The others wait parked behind the gate of the ordering key. The head stays out
//! until it has ended, whatever happens to it; so a retry, a crash or an open breaker lets no other job
//! pass. Once it has ended, in whatever way, the oldest waiting job becomes the head.

use crate::gate::{Gate, gate_by_history};
use crate::job::{Counters, JobId};
use crate::names::{OrderingKey, TypeName};

/// Returns which job becomes the head next. `out` is the current head of the ordering key, if there is
/// one; `oldest` is the waiting job with the lowest id.
pub fn next_out(out: Option<JobId>, oldest: Option<JobId>) -> Option<JobId> {
    match out {
        Some(_) => None,
        None => oldest,
    }
}

/// Returns the gate behind which a job waits that is enqueued or restarted, depending on whether its
/// ordering key has a head (`out`).
pub fn gate_of_newcomer(job_type: &TypeName, ordering_key: &OrderingKey, out: Option<JobId>) -> Option<Gate> {
    out.map(|_| Gate::ordering_key(job_type, ordering_key))
}

/// Returns the gate behind which a waiting job stays if a person wants it to be due at once. That opens
/// every gate except that of an ordering key, which keeps other jobs in order.
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
    fn the_oldest_goes_out_when_no_job_is_and_only_then() {
        assert_eq!(next_out(None, Some(JobId(3))), Some(JobId(3)));
        assert_eq!(next_out(Some(JobId(1)), Some(JobId(3))), None);
        assert_eq!(
            next_out(Some(JobId(9)), Some(JobId(3))),
            None,
            "a younger job that is the head stays the head"
        );
        assert_eq!(next_out(None, None), None);
    }

    #[test]
    fn a_newcomer_waits_in_line_if_a_job_is_out() {
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
