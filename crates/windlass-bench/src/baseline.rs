//! Baselines: the same work without Windlass, as the best that this machine could do. They have the same
//! durability and write the same rows, but follow none of the rules.

mod memory;
mod sqlite;
mod postgres;
mod redis;
mod pickup;

use anyhow::Result;

use crate::env::Env;
use crate::figures::{Figures, Measured};
use crate::scenarios::Scenario;
use crate::store::{Location, Stores};
use crate::{EngineKind, History, Options, pickup as pickups};

/// Work that has a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Enqueue,
    Drain(History),
    /// This number of jobs, one at a time. On servers only: elsewhere nothing is sent, so there is nothing to
    /// measure.
    Pickup(u64),
}

/// Adds the baseline and the ratio to it to the figures of scenarios that have one.
pub(crate) async fn beside(
    measured: Vec<Measured>,
    scenario: Scenario,
    options: &Options,
    stores: &Stores,
) -> Result<Vec<Measured>> {
    let part = match scenario {
        Scenario::Enqueue => Part::Enqueue,
        Scenario::Drain => Part::Drain(options.history),
        Scenario::DrainWithoutHistory => Part::Drain(History::Off),
        Scenario::Latency if matches!(options.engine(), EngineKind::Postgres | EngineKind::Redis) => {
            Part::Pickup(pickups::count(options))
        }
        _ => return Ok(measured),
    };
    eprintln!("    baseline");
    let baseline = measure(part, options, stores).await?;
    Ok(measured.into_iter().map(|(name, figures)| (name, with_baseline(figures, &baseline))).collect())
}

async fn measure(part: Part, options: &Options, stores: &Stores) -> Result<Figures> {
    let store = stores.create().await?;
    // The tables have the queue and the type that Windlass would have, and then the engine is closed.
    Env::new(options, &store).client().await?;
    store.engine.prune(1).await?;
    let location = store.location.clone();
    drop(store);
    let figures = match &location {
        Location::Memory => memory::measure(part, options.jobs),
        Location::File(path) => tokio::task::block_in_place(|| {
            sqlite::measure(part, path, options.synchronous.name(), options.jobs)
        })?,
        Location::Schema { url, schema } => postgres::measure(part, url, schema, options.jobs).await?,
        Location::Namespace { url, namespace } => redis::measure(part, url, namespace, options.jobs).await?,
    };
    stores.remove(&location).await?;
    Ok(figures)
}

/// Figures, their baselines and the ratios. A drain of a baseline is over when the last end is stored, so it
/// is compared with `stored_per_second`.
const COMPARED: [(&str, &str, &str); 3] = [
    ("single_per_second", "limit_single_per_second", "ratio_single_to_limit"),
    ("bulk_per_second", "limit_bulk_per_second", "ratio_bulk_to_limit"),
    ("stored_per_second", "limit_jobs_per_second", "ratio_to_limit"),
];

fn with_baseline(figures: Figures, baseline: &Figures) -> Figures {
    let figures = COMPARED.iter().fold(figures, |figures, (ours, limit, ratio)| match baseline.get(limit) {
        Some(rate) => {
            let own = figures.get(ours);
            figures.with(limit, rate).with_ratio(ratio, own, Some(rate))
        }
        None => figures,
    });
    // Of times, less is better.
    match baseline.get(pickup::BASELINE) {
        Some(least) => {
            let own = figures.get("pickup_p50_ms");
            figures.with(pickup::BASELINE, least).with_ratio("ratio_pickup_to_limit", Some(least), own)
        }
        None => figures,
    }
}
