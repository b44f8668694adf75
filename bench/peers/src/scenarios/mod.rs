//! The scenarios. Each has a separate database.

use clap::ValueEnum;

use crate::database::Database;
use crate::figures::Measured;
use crate::peer::{Peer, Settings};

mod enqueue;
mod drain;
mod latency;

/// How many times the jobs of the plain drain the pinned drain has, as in `windlass-bench`. The cost of
/// skipping dead rows grows with their number.
const PINNED_TIMES: u64 = 3;

/// The extent of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) jobs: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Single enqueues by 16 callers, and bulk enqueues
    Enqueue,
    /// Drain of stored jobs by one worker
    Drain,
    /// Latency of an idle worker, one job every 20 ms
    Latency,
    /// Drain, while another session holds a transaction open from before the enqueue
    Pinned,
    /// All scenarios
    All,
}

impl Scenario {
    /// Each requested scenario once, in the order of a job's path.
    pub(crate) fn in_order(requested: &[Self]) -> Vec<Self> {
        let all = [Self::Enqueue, Self::Drain, Self::Latency, Self::Pinned];
        all.into_iter().filter(|one| requested.contains(one) || requested.contains(&Self::All)).collect()
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
        Scenario::All => unreachable!("`in_order` replaces `all` by the scenarios"),
    };
    Ok(figures.into_iter().map(|(name, figures)| Measured::new(P::CRATE, name, figures)).collect())
}
