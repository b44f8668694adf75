//! What can be measured, one file for each, and in which order it is.

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

use clap::ValueEnum;

use super::env::Env;
use super::figures::{Figures, Measured};
use super::fixture::Fixture;
use super::progress::Progress;
use super::{BenchArgs, BenchEngine, by_hand};
use crate::exit::Failure;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Scenario {
    /// Single enqueues by 16 callers, and bulk enqueues, two at once
    Enqueue,
    /// Everything was put in before; one worker
    Drain,
    /// The same, and finished jobs are not kept
    DrainWithoutHistory,
    /// An idle worker, a job every 20 ms
    Latency,
    /// The first part of ten times as many ready jobs
    Deep,
    /// Ten times as many future jobs of higher priority in the same queue
    Future,
    /// Eleven priorities
    Mixed,
    /// Every job holds a key
    Keys,
    /// The jobs of a hundred fairness keys, which take turns
    FairnessKeys,
    /// Old jobs of the lowest priority beside fresh urgent ones
    Boost,
    /// Every job is parked once and let through again
    Parked,
    /// Every job takes a token of a rate limit that processes share and that never blocks
    RateLimit,
    /// Every job calls a platform whose breaker processes share and which stays closed
    Breaker,
    /// Under a transaction that is older than all jobs (PostgreSQL)
    Pinned,
    /// An idle worker under that transaction, after all those jobs (PostgreSQL)
    PinnedLatency,
    /// Enqueue and drain at once
    Churn,
}

/// One of them, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    One(Scenario),
    All,
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        use Scenario as S;
        const ALL: &[Choice] = &[
            Choice::One(S::Enqueue),
            Choice::One(S::Drain),
            Choice::One(S::DrainWithoutHistory),
            Choice::One(S::Latency),
            Choice::One(S::Deep),
            Choice::One(S::Future),
            Choice::One(S::Mixed),
            Choice::One(S::Keys),
            Choice::One(S::FairnessKeys),
            Choice::One(S::Boost),
            Choice::One(S::Parked),
            Choice::One(S::RateLimit),
            Choice::One(S::Breaker),
            Choice::One(S::Pinned),
            Choice::One(S::PinnedLatency),
            Choice::One(S::Churn),
            Choice::All,
        ];
        ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::One(scenario) => scenario.to_possible_value(),
            Self::All => Some(clap::builder::PossibleValue::new("all").help("All that the engine has")),
        }
    }
}

impl Scenario {
    /// What was asked for, each once and in order. Whoever asks for something that is compared with `drain` gets that
    /// too, since ratios are made within one run.
    pub(super) fn chosen(choices: &[Choice], engine: BenchEngine) -> Result<Vec<Self>, Failure> {
        let all: Vec<_> = Self::value_variants().iter().copied().filter(|one| one.runs_on(engine)).collect();
        let mut chosen = Vec::new();
        for choice in choices {
            match choice {
                Choice::All => chosen.extend(&all),
                Choice::One(one) if one.runs_on(engine) => chosen.push(*one),
                Choice::One(one) => {
                    let message = format!("scenario {} needs PostgreSQL", one.name());
                    return Err(Failure::usage(message).hint("choose it with --engine postgres"));
                }
            }
        }
        if chosen.iter().any(|one| one.is_compared()) {
            chosen.push(Self::Drain);
        }
        chosen.sort();
        chosen.dedup();
        Ok(chosen)
    }

    fn runs_on(self, engine: BenchEngine) -> bool {
        let needs_postgres = matches!(self, Self::Pinned | Self::PinnedLatency);
        !needs_postgres || engine == BenchEngine::Postgres
    }

    /// Whether it is the same work as `drain` under harder conditions.
    fn is_compared(self) -> bool {
        use Scenario as S;
        matches!(
            self,
            S::Deep
                | S::Future
                | S::Mixed
                | S::Keys
                | S::FairnessKeys
                | S::Boost
                | S::Parked
                | S::RateLimit
                | S::Breaker
                | S::Pinned
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
            S::FairnessKeys => "fairness_keys",
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

/// Measures each once.
pub(super) async fn run_all(
    args: &BenchArgs,
    scenarios: &[Scenario],
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Measured>, Failure> {
    let mut measured: Vec<Measured> = Vec::new();
    let both = scenarios.contains(&Scenario::Pinned) && scenarios.contains(&Scenario::PinnedLatency);
    for scenario in scenarios {
        // The second needs all the work of the first, so the two are measured together.
        if both && *scenario == Scenario::PinnedLatency {
            continue;
        }
        progress.scenario(scenario.name());
        measured.extend(run_one(args, *scenario, both, fixture, progress).await?);
    }
    Ok(compare(measured))
}

async fn run_one(
    args: &BenchArgs,
    scenario: Scenario,
    both: bool,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Measured>, Failure> {
    use Scenario as S;
    let place = fixture.fresh().await?;
    let env = Env::new(args, &place, progress);
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
        S::Pinned if both => pinned::rate_and_latency(&env).await?,
        S::Pinned => pinned::rate_and_latency(&env).await?.into_iter().take(1).collect(),
        S::PinnedLatency => pinned::rate_and_latency(&env).await?.into_iter().skip(1).collect(),
        S::Churn => vec![(name, churn::run(&env).await?)],
    };
    let at = place.at.clone();
    drop(place);
    fixture.remove(&at).await?;
    if !args.limit {
        return Ok(measured);
    }
    by_hand::beside(measured, scenario, args, fixture, progress).await
}

/// Says how each does beside `drain`.
fn compare(measured: Vec<Measured>) -> Vec<Measured> {
    // Where a job has more than one attempt, those are what is compared.
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

    fn names(choices: &[Choice], engine: BenchEngine) -> Vec<&'static str> {
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
        assert_eq!(names(&choices, BenchEngine::Memory), ["drain", "latency", "mixed"]);
        assert_eq!(names(&[Choice::One(Scenario::Latency)], BenchEngine::Memory), ["latency"]);
    }

    #[test]
    fn all_leaves_out_what_an_engine_does_not_have_and_asking_for_it_is_refused() {
        assert!(!names(&[Choice::All], BenchEngine::Sqlite).contains(&"pinned"));
        assert!(names(&[Choice::All], BenchEngine::Postgres).contains(&"pinned"));
        assert!(Scenario::chosen(&[Choice::One(Scenario::Pinned)], BenchEngine::Sqlite).is_err());
    }
}
