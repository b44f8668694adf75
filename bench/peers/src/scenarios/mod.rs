//! What is measured. Each scenario has a database of its own.

use clap::ValueEnum;

use crate::database::Database;
use crate::figures::Measured;
use crate::peer::{Peer, Settings};

mod enqueue;
mod drain;
mod latency;

/// The pinned drain has so many times the jobs of the plain one, as in `windlass bench`: what it costs to step over dead
/// rows grows with them.
const PINNED_TIMES: u64 = 3;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) jobs: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Single enqueues with 16 callers, and bulk
    Enqueue,
    /// All jobs are there; one worker
    Drain,
    /// An idle worker, one job every 20 ms
    Latency,
    /// Drain, while another session holds a transaction open from before the enqueue
    Pinned,
    /// All of these
    All,
}

impl Scenario {
    /// Each once, in the order of a job's way.
    pub(crate) fn in_order(asked: &[Self]) -> Vec<Self> {
        let all = [Self::Enqueue, Self::Drain, Self::Latency, Self::Pinned];
        all.into_iter().filter(|one| asked.contains(one) || asked.contains(&Self::All)).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Drain => "drain",
            Self::Latency => "latency",
            Self::Pinned => "pinned",
            Self::All => "all",
        }
    }
}

/// Runs one scenario with one peer. The database is dropped whatever happens.
pub(crate) async fn run<P: Peer>(
    server: &str,
    scenario: Scenario,
    plan: Plan,
) -> anyhow::Result<Vec<Measured>> {
    let database = Database::create(server, scenario.name()).await?;
    let figures = measure::<P>(&database, scenario, plan).await;
    database.drop().await?;
    figures
}

async fn measure<P: Peer>(
    database: &Database,
    scenario: Scenario,
    plan: Plan,
) -> anyhow::Result<Vec<Measured>> {
    let figures = match scenario {
        Scenario::Enqueue => vec![
            ("enqueue1", enqueue::one_by_one::<P>(database, plan).await?),
            ("bulk", enqueue::in_bulk::<P>(database, plan).await?),
        ],
        Scenario::Drain => vec![("drain", drain::drain::<P>(database, plan.jobs, plan).await?)],
        Scenario::Latency => vec![("latency", latency::latency::<P>(database, plan).await?)],
        Scenario::Pinned => {
            let snapshot = database.pin().await?;
            let figures = drain::drain::<P>(database, plan.jobs * PINNED_TIMES, plan).await?;
            snapshot.release().await?;
            vec![("pinned", figures)]
        }
        Scenario::All => unreachable!("`in_order` takes this word apart"),
    };
    Ok(figures.into_iter().map(|(name, figures)| Measured::new(P::CRATE, name, figures)).collect())
}
