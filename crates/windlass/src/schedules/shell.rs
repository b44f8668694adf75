//! The shell around firing: sleeps until the next tick, and polls from time to time for schedules that
//! another process has stored. No error of the store ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::error::EngineError;
use windlass_core::limits::{SCHEDULES_POLL_EVERY, SCHEDULES_POLL_IDLE};

use super::duty::ScheduleDuty;
use crate::duties::DutyContext;

/// The length of one run of the duty: a run that never ended would look stuck.
const RUN_FOR: Duration = Duration::from_secs(30);

/// Fires at each tick for a while, or until another process leads.
pub(crate) async fn fire_for_a_while(
    duty: Arc<ScheduleDuty>,
    context: DutyContext,
) -> Result<(), EngineError> {
    let began = Instant::now();
    let of_run = context.clone();
    let may_go_on = move || !of_run.is_stopped() && began.elapsed() < RUN_FOR;
    while may_go_on() {
        let fired = duty.run(may_go_on.clone()).await?;
        context.did(u64::try_from(fired.jobs).unwrap_or(u64::MAX));
        let wait = wait_for(fired.next).min(RUN_FOR.saturating_sub(began.elapsed()));
        let _ = tokio::time::timeout(wait, context.stopped()).await;
    }
    Ok(())
}

/// The time until the next tick, but not longer than another process may wait for a schedule that it has
/// stored. Where no schedule is stored or due, polls are rare.
fn wait_for(next: Option<Duration>) -> Duration {
    next.map_or(SCHEDULES_POLL_IDLE, |next| next.min(SCHEDULES_POLL_EVERY))
}
