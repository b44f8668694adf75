//! Tests that would take seconds, on a runtime with virtual time. They need an engine that answers at once:
//! an engine with its own threads looks idle to such a runtime.

use windlass::types::job::JobState;

use crate::bench::{Act, Bench};

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_cancel_is_stopped_after_a_grace() {
    let mut bench = Bench::start().await;
    let id = bench.put(Act::IgnoreEverything).await;
    bench.started().await;
    bench.engine.cancel(id, "enough").await.unwrap();
    bench.until(id, JobState::Cancelled).await;
}
