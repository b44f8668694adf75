//! The scenarios, one file for each, and the order in which they are measured.

mod enqueue;
mod latency;
mod plain;
mod deep;
mod future;
mod mixed;
mod keys;
mod fairness_keys;
mod boost;
mod parked;
mod limited;
mod pinned;
mod churn;

use std::sync::LazyLock;

use anyhow::Result;
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::env::Env;
use crate::figures::{Figures, Measured};
use crate::store::Stores;
use crate::{EngineKind, Options, baseline, usage};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Scenario {
    /// Rate of single enqueues by 16 callers, and of bulk enqueues, two at once
    Enqueue,
    /// Rate of one worker on jobs that were enqueued before
    Drain,
    /// The same, and finished jobs are not kept
    DrainWithoutHistory,
    /// Pickup time of an idle worker, with a job every 20 ms
    Latency,
    /// Drain of the first jobs of a backlog of ten times as many
    Deep,
    /// Drain beside ten times as many future jobs of higher priority in the same queue
    Future,
    /// Drain of jobs of eleven priorities
    Mixed,
    /// Enqueue and drain of jobs that each hold a key
    Keys,
    /// Enqueue and drain of jobs of a hundred fairness keys, which take turns
    FairnessKeys,
    /// Drain of old jobs of the lowest priority beside new urgent ones
    Boost,
    /// Every job is parked once, then its gate is opened
    Parked,
    /// Drain of jobs that each take a token of a shared rate limit, which never blocks
    RateLimit,
    /// Drain of jobs behind a shared breaker that stays closed
    Breaker,
    /// Drain under a transaction that is older than all jobs (PostgreSQL)
    Pinned,
    /// Pickup time of an idle worker under that transaction, after all those jobs (PostgreSQL)
    PinnedLatency,
    /// Rate, pickup time and disk use of enqueue and drain at once
    Churn,
}

/// One scenario, or all that the engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    One(Scenario),
    All,
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        static CHOICES: LazyLock<Vec<Choice>> = LazyLock::new(|| {
            Scenario::value_variants().iter().copied().map(Choice::One).chain([Choice::All]).collect()
        });
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::One(scenario) => scenario.to_possible_value(),
            Self::All => Some(PossibleValue::new("all").help("All that the engine has")),
        }
    }
}

impl Scenario {
    /// The chosen scenarios, each once and in order. `drain` is added to scenarios that are compared with it,
    /// since ratios are made within one run.
    pub(crate) fn chosen(choices: &[Choice], engine: EngineKind) -> Result<Vec<Self>> {
        let mut chosen = Vec::new();
        for choice in choices {
            match choice {
                Choice::All => {
                    chosen.extend(Self::value_variants().iter().filter(|scenario| scenario.runs_on(engine)));
                }
                Choice::One(scenario) if scenario.runs_on(engine) => chosen.push(*scenario),
                Choice::One(scenario) => {
                    let name = scenario.name();
                    return Err(usage(format!("scenario {name} needs PostgreSQL; add --engine postgres")));
                }
            }
        }
        if chosen.iter().any(|scenario| scenario.is_compared()) {
            chosen.push(Self::Drain);
        }
        chosen.sort();
        chosen.dedup();
        Ok(chosen)
    }

    fn runs_on(self, engine: EngineKind) -> bool {
        let needs_postgres = matches!(self, Self::Pinned | Self::PinnedLatency);
        !needs_postgres || engine == EngineKind::Postgres
    }

    /// Whether it is the same work as `drain` under harder conditions.
    fn is_compared(self) -> bool {
        use Scenario as S;
        !matches!(
            self,
            S::Enqueue | S::Drain | S::DrainWithoutHistory | S::Latency | S::PinnedLatency | S::Churn
        )
    }

    fn name(self) -> &'static str {
        use Scenario as S;
        match self {
            S::Enqueue => "enqueue",
            S::Drain => "drain",
            S::DrainWithoutHistory => "drain-without-history",
            S::Latency => "latency",
            S::Deep => "deep",
            S::Future => "future",
            S::Mixed => "mixed",
            S::Keys => "keys",
            S::FairnessKeys => "fairness-keys",
            S::Boost => "boost",
            S::Parked => "parked",
            S::RateLimit => "rate-limit",
            S::Breaker => "breaker",
            S::Pinned => "pinned",
            S::PinnedLatency => "pinned-latency",
            S::Churn => "churn",
        }
    }
}

/// Measures each scenario once.
pub(crate) async fn run_all(
    options: &Options,
    scenarios: &[Scenario],
    stores: &Stores,
) -> Result<Vec<Measured>> {
    let mut measured: Vec<Measured> = Vec::new();
    let both = scenarios.contains(&Scenario::Pinned) && scenarios.contains(&Scenario::PinnedLatency);
    for scenario in scenarios {
        // `pinned-latency` needs all the work of `pinned`, so the two are measured together.
        if both && *scenario == Scenario::PinnedLatency {
            continue;
        }
        eprintln!("  {}", scenario.name());
        let figures = run_one(options, *scenario, both, stores).await?;
        measured.extend(match options.limit {
            true => baseline::beside(figures, *scenario, options, stores).await?,
            false => figures,
        });
    }
    Ok(compare(measured))
}

async fn run_one(
    options: &Options,
    scenario: Scenario,
    both: bool,
    stores: &Stores,
) -> Result<Vec<Measured>> {
    use Scenario as S;
    let store = stores.create().await?;
    let env = Env::new(options, &store);
    let name = scenario.name();
    let measured = match scenario {
        S::Enqueue => vec![(name, enqueue::run(&env).await?)],
        S::Drain => vec![(name, plain::run(&env).await?)],
        S::DrainWithoutHistory => vec![(name, plain::run(&env.without_history()).await?)],
        S::Latency => vec![(name, latency::run(&env).await?)],
        S::Deep => vec![(name, deep::run(&env).await?)],
        S::Future => vec![(name, future::run(&env).await?)],
        S::Mixed => vec![(name, mixed::run(&env).await?)],
        S::Keys => vec![(name, keys::run(&env).await?)],
        S::FairnessKeys => vec![(name, fairness_keys::run(&env).await?)],
        S::Boost => vec![(name, boost::run(&env).await?)],
        S::Parked => vec![(name, parked::run(&env).await?)],
        S::RateLimit => vec![(name, limited::by_rate(&env).await?)],
        S::Breaker => vec![(name, limited::by_breaker(&env).await?)],
        S::Pinned | S::PinnedLatency => {
            pinned::run(&env).await?.into_iter().filter(|(measured, _)| both || *measured == name).collect()
        }
        S::Churn => vec![(name, churn::run(&env).await?)],
    };
    let location = store.location.clone();
    drop(store);
    stores.remove(&location).await?;
    Ok(measured)
}

/// Adds the ratio to `drain` where that means something.
fn compare(measured: Vec<Measured>) -> Vec<Measured> {
    // Where a job has more than one attempt, the attempts are compared.
    let rate = |figures: &Figures| figures.get("attempts_per_second").or(figures.get("jobs_per_second"));
    let drain = measured.iter().find(|(name, _)| *name == Scenario::Drain.name());
    let drain = drain.and_then(|(_, figures)| rate(figures));
    let compared: Vec<_> = Scenario::value_variants().iter().filter(|one| one.is_compared()).collect();
    let compare = |(name, figures): Measured| match compared.iter().any(|one| one.name() == name) {
        true => (name, figures.clone().with_ratio("ratio_to_drain", rate(&figures), drain)),
        false => (name, figures),
    };
    measured.into_iter().map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(choices: &[Choice], engine: EngineKind) -> Vec<&'static str> {
        Scenario::chosen(choices, engine).unwrap().into_iter().map(Scenario::name).collect()
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for scenario in Scenario::value_variants() {
            assert_eq!(scenario.to_possible_value().unwrap().get_name(), scenario.name());
        }
        assert_eq!(Choice::value_variants().len(), Scenario::value_variants().len() + 1, "and `all`");
    }

    #[test]
    fn what_is_compared_brings_drain_along() {
        let choices = [Choice::One(Scenario::Mixed), Choice::One(Scenario::Latency)];
        assert_eq!(names(&choices, EngineKind::Memory), ["drain", "latency", "mixed"]);
        assert_eq!(names(&[Choice::One(Scenario::Latency)], EngineKind::Memory), ["latency"]);
    }

    #[test]
    fn all_leaves_out_what_an_engine_does_not_have_and_choosing_that_is_refused() {
        assert!(!names(&[Choice::All], EngineKind::Sqlite).contains(&"pinned"));
        assert!(names(&[Choice::All], EngineKind::Postgres).contains(&"pinned"));
        assert!(Scenario::chosen(&[Choice::One(Scenario::Pinned)], EngineKind::Sqlite).is_err());
    }
}
