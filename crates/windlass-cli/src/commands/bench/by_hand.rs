//! The same work written by hand, without Windlass: what this machine could do at the best. Of the same
//! durability and with the same rows, but with none of the rules.

mod memory;
mod sqlite;
mod postgres;
mod redis;
mod pickup;

use super::env::Env;
use super::figures::{Figures, Measured};
use super::fixture::{At, Fixture};
use super::progress::Progress;
use super::scenarios::Scenario;
use super::{BenchArgs, BenchEngine, History, pickup as pickups};
use crate::exit::Failure;

/// What is written by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Enqueue,
    Drain(History),
    /// So many jobs, one at a time. On servers only: elsewhere nothing is sent, and what is left is the cost of the clock.
    Pickup(u64),
}

/// Puts the limit and the ratio to it beside the figures, for the scenarios that can be written by hand in a page.
pub(super) async fn beside(
    measured: Vec<Measured>,
    scenario: Scenario,
    args: &BenchArgs,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Measured>, Failure> {
    let part = match scenario {
        Scenario::Enqueue => Part::Enqueue,
        Scenario::Drain => Part::Drain(args.history),
        Scenario::DrainWithoutHistory => Part::Drain(History::Off),
        Scenario::Latency if matches!(args.engine(), BenchEngine::Postgres | BenchEngine::Redis) => {
            Part::Pickup(pickups::count(args))
        }
        _ => return Ok(measured),
    };
    let limit = measure(part, args, fixture, progress).await?;
    Ok(measured.into_iter().map(|(name, figures)| (name, with_limit(figures, &limit))).collect())
}

async fn measure(
    part: Part,
    args: &BenchArgs,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Figures, Failure> {
    progress.part("by hand", if let Part::Pickup(count) = part { count } else { args.jobs });
    let place = fixture.fresh().await?;
    // The store has queue and type as Windlass would have them, and then nobody else is there.
    Env::new(args, &place, progress).client().await?;
    place.engine.prune(1).await?;
    let at = place.at.clone();
    drop(place);
    let figures = match &at {
        At::Memory => memory::measure(part, args.jobs),
        At::File(path) => tokio::task::block_in_place(|| {
            sqlite::measure(part, path, args.synchronous(), args.jobs, progress)
        })?,
        At::Schema(url, schema) => postgres::measure(part, url, schema, args.jobs, progress).await?,
        At::Namespace(url, namespace) => redis::measure(part, url, namespace, args.jobs, progress).await?,
    };
    fixture.remove(&at).await?;
    Ok(figures)
}

/// By hand, a drain is over when the last end is stored, so that is what it is compared with.
const COMPARED: [(&str, &str, &str); 3] = [
    ("single_per_second", "limit_single_per_second", "ratio_single_to_limit"),
    ("bulk_per_second", "limit_bulk_per_second", "ratio_bulk_to_limit"),
    ("stored_per_second", "limit_jobs_per_second", "ratio_to_limit"),
];

fn with_limit(figures: Figures, limit: &Figures) -> Figures {
    let figures = COMPARED.iter().fold(figures, |figures, (ours, theirs, ratio)| match limit.get(theirs) {
        Some(rate) => {
            let own = figures.get(ours);
            figures.with(theirs, rate).with_ratio(ratio, own, Some(rate))
        }
        None => figures,
    });
    // Of times, less is better.
    match limit.get(pickup::LIMIT) {
        Some(least) => {
            let own = figures.get("pickup_p50_ms");
            figures.with(pickup::LIMIT, least).with_ratio("ratio_pickup_to_limit", Some(least), own)
        }
        None => figures,
    }
}
