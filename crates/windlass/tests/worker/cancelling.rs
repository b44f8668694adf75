//! Running and waiting jobs that are cancelled.

use windlass::types::admin::CancelAnswer;
use windlass::types::job::{JobState, StoredState};

use crate::bench::{Act, Bench};

#[tokio::test]
async fn a_running_job_is_told_and_ends_as_cancelled() {
    let mut bench = Bench::start().await;
    let id = bench.put(Act::WaitForCancel).await;
    bench.started().await;
    assert_eq!(bench.engine.cancel(id, "changed my mind").await.unwrap(), CancelAnswer::Requested);
    let record = bench.until(id, JobState::Cancelled).await;
    assert!(matches!(record.state, StoredState::Cancelled { why, .. } if why == "changed my mind"));
}

#[tokio::test]
async fn a_waiting_job_never_starts_after_its_cancel() {
    let bench = Bench::start().await;
    let id = bench.client.enqueue(Act::Succeed).delay(std::time::Duration::from_secs(3600)).await.unwrap().id;
    assert_eq!(bench.engine.cancel(id, "no").await.unwrap(), CancelAnswer::Cancelled);
    assert_eq!(bench.until(id, JobState::Cancelled).await.job.counters.attempts, 0);
}
