//! What another process puts in or asks for reaches a running worker at once.

use std::time::{Duration, Instant};

use windlass::core::admin::CancelAnswer;
use windlass::core::job::Phase;
use windlass::{Client, WorkerOptions};

use crate::bench::{Act, Bench};

/// How long an idle worker may take from an enqueue elsewhere to the start of the handler.
const PICKED_UP_WITHIN: Duration = Duration::from_millis(10);
/// Enqueues that are measured together: the middle one counts, since a busy machine delays some.
const ENQUEUES: usize = 21;
/// A busy machine may delay most of one round, and not of all. A worker that nobody wakes is late in each.
const ROUNDS: usize = 5;
/// A heartbeat would bring it too, but only after ten.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn what_another_process_puts_in_is_picked_up_within_10_ms() {
    let namespace = crate::fresh_namespace();
    let mut bench = Bench::on(crate::open(&namespace), WorkerOptions::default()).await;
    let elsewhere = Client::new(crate::open(&namespace));
    let mut medians = Vec::new();
    while medians.last().is_none_or(|median| *median >= PICKED_UP_WITHIN) {
        assert!(medians.len() < ROUNDS, "expected a median below {PICKED_UP_WITHIN:?}, got {medians:?}");
        let mut took = Vec::new();
        for _ in 0..ENQUEUES {
            // may sleep: the worker has to be idle. The time differs, so that none of its looks falls on the enqueue.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(100..300))).await;
            let asked = Instant::now();
            elsewhere.enqueue(Act::Succeed).await.expect("it is taken");
            bench.started().await;
            took.push(asked.elapsed());
        }
        took.sort();
        medians.push(took[ENQUEUES / 2]);
        println!("fastest {:?}, median {:?}, slowest {:?}", took[0], took[ENQUEUES / 2], took[ENQUEUES - 1]);
    }
}

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_at_once() {
    let namespace = crate::fresh_namespace();
    let mut bench = Bench::on(crate::open(&namespace), WorkerOptions::default()).await;
    let elsewhere = crate::open(&namespace);
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        let asked = Instant::now();
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, Phase::Cancelled).await;
        assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    }
}
