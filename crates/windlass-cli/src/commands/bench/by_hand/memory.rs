//! By hand in memory: a heap under a mutex, a map for the history, two threads.

use std::collections::{BinaryHeap, HashMap};
use std::sync::Mutex;
use std::time::Instant;

use super::super::figures::Figures;
use super::super::measure::PAYLOAD_BYTES;
use super::super::progress::Progress;

const BATCH: usize = 500;

#[derive(Default)]
struct Store {
    ready: BinaryHeap<std::cmp::Reverse<(u8, u64, u64)>>,
    payloads: HashMap<u64, Box<str>>,
    done: HashMap<u64, Box<str>>,
}

/// Bulk and drain; the other figures have no counterpart.
pub(in super::super) fn measure(jobs: u64, progress: &Progress) -> Figures {
    progress.part("by hand: memory", jobs);
    let store = Mutex::new(Store::default());
    let started = Instant::now();
    for id in 0..jobs {
        let mut store = store.lock().expect("no thread panics");
        store.ready.push(std::cmp::Reverse((5, 0, id)));
        store.payloads.insert(id, "x".repeat(PAYLOAD_BYTES).into());
    }
    let bulk = jobs as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| drain(&store));
        }
    });
    let drain = jobs as f64 / started.elapsed().as_secs_f64();
    Figures { enqueue_bulk_per_s: Some(bulk), drain_per_s: Some(drain), ..Figures::default() }
}

fn drain(store: &Mutex<Store>) {
    loop {
        let batch: Vec<u64> = {
            let mut store = store.lock().expect("no thread panics");
            (0..BATCH).map_while(|_| store.ready.pop()).map(|entry| entry.0.2).collect()
        };
        if batch.is_empty() {
            return;
        }
        let mut store = store.lock().expect("no thread panics");
        for id in batch {
            if let Some(payload) = store.payloads.remove(&id) {
                store.done.insert(id, payload);
            }
        }
    }
}
