//! The baseline in memory: a heap under a mutex, a map for the history, two threads.

use std::collections::{BinaryHeap, HashMap};
use std::sync::Mutex;
use std::time::Instant;

use super::Part;
use crate::History;
use crate::figures::{Figures, per_second};
use crate::workload::PAYLOAD_BYTES;

const BATCH: usize = 500;

#[derive(Default)]
struct Store {
    ready: BinaryHeap<std::cmp::Reverse<(u8, u64, u64)>>,
    payloads: HashMap<u64, Box<str>>,
    done: HashMap<u64, Box<str>>,
}

pub(super) fn measure(part: Part, jobs: u64) -> Figures {
    let store = Mutex::new(Store::default());
    let started = Instant::now();
    for id in 0..jobs {
        let mut store = store.lock().expect("no thread panics");
        store.ready.push(std::cmp::Reverse((5, 0, id)));
        store.payloads.insert(id, "x".repeat(PAYLOAD_BYTES).into());
    }
    let Part::Drain(history) = part else {
        return Figures::default().with("limit_bulk_per_second", per_second(jobs, started.elapsed()));
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| drain(&store, history));
        }
    });
    Figures::default().with("limit_jobs_per_second", per_second(jobs, started.elapsed()))
}

fn drain(store: &Mutex<Store>, history: History) {
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
            match store.payloads.remove(&id) {
                Some(payload) if history == History::On => drop(store.done.insert(id, payload)),
                _ => {}
            }
        }
    }
}
