//! Known bugs that tests switch on, one at a time, to show that a check catches each. Without the feature
//! `planted-bugs` every question is answered with a constant `false` and nothing of this is compiled in.

/// A bug that real systems have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Settling compares no token.
    SettleWithoutToken,
    /// A worker that was declared dead comes back to life with its next heartbeat.
    DeadWorkerRevives,
    /// A claim needs no live worker row.
    DeadWorkerClaims,
    /// Jobs are taken back because they are old, not because their worker is silent.
    RescueByAge,
    /// An enqueue whose answer got lost is sent again under a new name.
    RepeatWithoutReceipt,
    /// Asking whether a request was stored leaves no tombstone, so that the request is stored after the
    /// answer no.
    LateRequestIsStored,
    /// An enqueue is acknowledged though the store refused to answer.
    AcknowledgeBeforeWrite,
    /// A claim whose answer got lost is forgotten instead of asked again.
    ForgetLostClaim,
    /// A claim that is applied after its own repeat claims.
    SpentTokenClaims,
    /// A settle whose answer got lost is taken for done.
    ForgetLostSettle,
    /// Stopping drops what was prefetched instead of giving it back.
    StopDropsPrefetched,
    /// Stopping drops settlements that are still buffered.
    StopDropsUnsettled,
    /// The token is the attempt number.
    CounterAsToken,
    /// A rescue counts no crash.
    CrashNotCounted,
    /// A key is not freed when its job is given up.
    KeyNotFreedByDeath,
    /// A claim looks at no due time.
    ClaimBeforeDue,
    /// A cancelled job's success is taken.
    CancelIgnored,
    /// The silence of workers counts also while no heartbeat can be stored.
    SilenceOfAFullStoreCounts,
    /// A schedule is changed though somebody else was faster, so that a tick is fired twice.
    StaleTickFires,
    /// A trigger that has fired is still marked, and fires again.
    TriggerKeepsItsMark,
    /// Of two ends before a look, the second takes the mark of the first away: the trigger never fires.
    SecondMarkTakesTheFirst,
}

impl Bug {
    /// Those of the life of a job, which simulations tell. Schedules and triggers are in none.
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
