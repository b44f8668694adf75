//! Scaling at run time: the store holds the number of slots of each queue. A change there, by `windlass
//! queue scale` or by a new declaration of the queue, reaches every running worker within a few seconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_core::engine::Engine;
use windlass_core::limits::CONCURRENCY_MAX;
use windlass_core::names::QueueName;

use super::pool::{Event, PoolSettings};
use crate::store;

/// A pool that serves one queue, and its present number of slots.
struct Scaled {
    concurrency: u32,
    pool: mpsc::Sender<Event>,
}

/// Watches the store for changed numbers of slots. Pools that serve several queues keep the number they
/// were started with.
pub(super) fn watch<'a>(
    engine: Arc<dyn Engine>,
    every: Duration,
    pools: impl Iterator<Item = (&'a PoolSettings, mpsc::Sender<Event>)>,
) -> JoinHandle<()> {
    let mut scaled: HashMap<QueueName, Scaled> = pools
        .filter_map(|(settings, pool)| match settings.scope.queues.as_slice() {
            [queue] => Some((queue.clone(), Scaled { concurrency: settings.concurrency, pool })),
            _ => None,
        })
        .collect();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            look(&engine, &mut scaled).await;
        }
    })
}

async fn look(engine: &Arc<dyn Engine>, scaled: &mut HashMap<QueueName, Scaled>) {
    // Queues that cannot be read now are read in the next round.
    let Ok(queues) = store::call(engine, |engine| async move { engine.queue_specs().await }).await else {
        return;
    };
    for queue in queues {
        let wanted = queue.concurrency.clamp(1, CONCURRENCY_MAX);
        let Some(known) = scaled.get_mut(&queue.name).filter(|known| known.concurrency != wanted) else {
            continue;
        };
        if known.pool.try_send(Event::Scale(wanted)).is_ok() {
            tracing::info!(queue = %queue.name, slots = wanted, "the queue was scaled");
            known.concurrency = wanted;
        }
    }
}
