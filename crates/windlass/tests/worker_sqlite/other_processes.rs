//! What another process does on the same file reaches a running worker.

use std::time::{Duration, Instant};

use windlass::WorkerOptions;
use windlass::core::admin::CancelAnswer;
use windlass::core::job::Phase;

use crate::bench::{Act, Bench};

/// A heartbeat would bring it too, but only after ten.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_within_about_a_second() {
    let file = crate::fresh_file();
    let mut bench = Bench::on(crate::open(&file), WorkerOptions::default()).await;
    let elsewhere = crate::open(&file);
    // One after another: what makes the first one fast must not make the next ones slow.
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        let asked = Instant::now();
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, Phase::Cancelled).await;
        assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    }
}
