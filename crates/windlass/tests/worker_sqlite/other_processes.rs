//! The acts of another process on the same file reach a running worker.

use std::time::Duration;

use windlass::WorkerOptions;
use windlass::types::admin::CancelAnswer;
use windlass::types::job::JobState;

use crate::bench::{Act, Bench};

/// A heartbeat interval so long that no heartbeat can report the cancel during this test.
const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_long_before_the_next_heartbeat() {
    let file = crate::fresh_file();
    let options = WorkerOptions { heartbeat_every: HOUR / 2, lease: HOUR, ..WorkerOptions::default() };
    let mut bench = Bench::on(crate::open(&file), options).await;
    let elsewhere = crate::open(&file);
    // Three in a row: what makes the first one fast must not make the next ones slow.
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, JobState::Cancelled).await;
    }
}
