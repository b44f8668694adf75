//! Logging for a store that refuses requests about leases. A store that is unavailable comes back, and its
//! silence is logged elsewhere. A refusal lasts: a role without rights on a table, say, stays without them,
//! and then no process in the whole cluster does any duty.

use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::error::EngineError;

/// Whether one kind of request is refused by an error that does not pass.
#[derive(Debug, Default)]
pub(super) struct Refusals(AtomicBool);

/// A change that is to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Begins,
    IsOver,
}

impl Refusals {
    /// Takes in an answer. Reports once that refusals begin, and once that they are over.
    pub(super) fn observe<T>(&self, answer: &Result<T, EngineError>) -> Option<Turn> {
        match answer {
            Ok(_) => self.0.swap(false, Ordering::SeqCst).then_some(Turn::IsOver),
            Err(error) if error.is_passing() => None,
            Err(_) => (!self.0.swap(true, Ordering::SeqCst)).then_some(Turn::Begins),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once_when_they_begin_and_once_when_they_are_over() {
        let refusals = Refusals::default();
        let refused = || Err::<(), _>(EngineError::Unusable { why: "no rights".to_owned() });
        let away = || Err::<(), _>(EngineError::Unavailable { why: "the store is away".to_owned() });
        assert_eq!(refusals.observe(&Ok(())), None);
        assert_eq!(refusals.observe(&away()), None, "the store comes back");
        assert_eq!(refusals.observe(&refused()), Some(Turn::Begins));
        assert_eq!((refusals.observe(&refused()), refusals.observe(&away())), (None, None));
        assert_eq!(refusals.observe(&Ok(())), Some(Turn::IsOver));
        assert_eq!((refusals.observe(&Ok(())), refusals.observe(&refused())), (None, Some(Turn::Begins)));
    }
}
