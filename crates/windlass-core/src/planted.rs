//! Known bugs that tests switch on, one at a time, to show that a check catches each. Without the feature
//! `planted-bugs`, `planted` is a constant `false` and none of these bugs is compiled in.

/// A bug that real systems have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Settling compares no token.
    SettleWithoutToken,
    /// A worker that was declared dead comes back to life with its next heartbeat.
    DeadWorkerRevives,
    /// A claim needs no live worker row.
    DeadWorkerClaims,
    /// Jobs are taken back because they are old, not because their worker sends no heartbeats.
    RescueByAge,
    /// An enqueue whose answer was lost is sent again under a new request id.
    RepeatWithoutReceipt,
    /// A query whether a request was stored leaves no tombstone, so that the request is stored after the
    /// answer no.
    LateRequestIsStored,
    /// An enqueue is acknowledged though the store returned an error.
    AcknowledgeBeforeWrite,
    /// A claim whose answer was lost is forgotten instead of repeated.
    ForgetLostClaim,
    /// A claim that is applied after its own repeat claims jobs.
    SpentTokenClaims,
    /// A settle whose answer was lost counts as done.
    ForgetLostSettle,
    /// Stopping drops prefetched jobs instead of releasing them.
    StopDropsPrefetched,
    /// Stopping drops settlements that are still buffered.
    StopDropsUnsettled,
    /// The token is the attempt number.
    CounterAsToken,
    /// A rescue counts no crash.
    CrashNotCounted,
    /// A key is not freed when its job dies.
    KeyNotFreedByDeath,
    /// A claim ignores the due time.
    ClaimBeforeDue,
    /// The success of a cancelled job is accepted.
    CancelIgnored,
    /// The silence of workers also counts while no heartbeat can be stored.
    SilenceOfAFullStoreCounts,
    /// A schedule is changed though another process was faster, so that a tick is fired twice.
    StaleTickFires,
    /// A trigger that has fired stays marked, and fires again.
    TriggerKeepsItsMark,
    /// If two jobs end before an evaluation, the second removes the mark of the first: the trigger never
    /// fires.
    SecondMarkTakesTheFirst,
}

impl Bug {
    /// The bugs in the life of a job, which simulations detect. Schedules and triggers occur in no
    /// simulation.
    pub const OF_A_JOB: [Self; 18] = [
        Self::SettleWithoutToken,
        Self::DeadWorkerRevives,
        Self::DeadWorkerClaims,
        Self::RescueByAge,
        Self::RepeatWithoutReceipt,
        Self::LateRequestIsStored,
        Self::AcknowledgeBeforeWrite,
        Self::ForgetLostClaim,
        Self::SpentTokenClaims,
        Self::ForgetLostSettle,
        Self::StopDropsPrefetched,
        Self::StopDropsUnsettled,
        Self::CounterAsToken,
        Self::CrashNotCounted,
        Self::KeyNotFreedByDeath,
        Self::ClaimBeforeDue,
        Self::CancelIgnored,
        Self::SilenceOfAFullStoreCounts,
    ];
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this bug is planted in this thread.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::{plant, planted};

/// Whether this bug is planted: never, in a build without the feature.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}
