//! `windlass breaker`: inspects circuit breakers, opens and closes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde_json::{Value, json};
use windlass::limits::{LimitScope, change_breaker};
use windlass_core::breaker::{BreakerEvent, BreakerState, CircuitState};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::gate::Gate;
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, OPEN_BATCH_MAX};
use windlass_core::names::BreakerName;
use windlass_core::policies::StoredBreaker;
use windlass_core::span::{parse_span, show_span};

use super::job::act::parse_reason;
use crate::config::suggest;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;

/// Inspect circuit breakers; open, close and reset them.
#[derive(Debug, Subcommand)]
pub(crate) enum BreakerCommand {
    /// List the breakers that processes share, and those of the configuration
    #[command(after_help = "Example:\n  windlass breaker list --json")]
    List,
    /// Show everything about a breaker
    #[command(after_help = "Example:\n  windlass breaker show shop\n\nExit codes: 3 no such breaker.")]
    Show(BreakerArgs),
    /// Stop all calls to a platform, for a time or until the breaker is closed
    Open(OpenArgs),
    /// Allow calls to a platform again, and release the jobs that wait for it
    #[command(after_help = "Example:\n  windlass breaker close shop")]
    Close(BreakerArgs),
    /// Reset a breaker: close it and delete its counts, also if its stored state cannot be read
    #[command(after_help = "Example:\n  windlass breaker reset shop")]
    Reset(BreakerArgs),
}

/// Names a breaker.
#[derive(Debug, Args)]
pub(crate) struct BreakerArgs {
    /// The breaker
    #[arg(value_name = "NAME")]
    name: BreakerName,
}

/// Stops all calls to a platform. Jobs that would call it wait, at no cost. Workers follow within a second.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass breaker open shop --for 1h --reason 'they are moving'
  windlass breaker open shop")]
pub(crate) struct OpenArgs {
    /// The name of the breaker
    #[arg(value_name = "NAME")]
    name: BreakerName,
    /// The reason, shown to operators
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Let probes through after this time [default: until it is closed]
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_span)]
    lasting: Option<Duration>,
}

/// Runs a breaker command.
pub(crate) async fn run(command: &BreakerCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        BreakerCommand::List => list(context).await,
        BreakerCommand::Show(args) => show(args, context).await,
        BreakerCommand::Open(args) => open(args, context).await,
        BreakerCommand::Close(args) => close(&args.name, &BreakerEvent::Close, context).await,
        BreakerCommand::Reset(args) => close(&args.name, &BreakerEvent::Reset, context).await,
    }
}

/// A breaker as the command prints it.
struct Listed {
    name: BreakerName,
    scope: LimitScope,
    /// Or why it is unknown.
    state: Result<BreakerState, String>,
}

impl Listed {
    fn word(&self) -> &'static str {
        self.state.as_ref().map_or("unknown", |state| state.circuit.as_str())
    }

    fn remark(&self, now: Timestamp) -> String {
        self.state.as_ref().map_or_else(String::clone, |state| remark(state, now))
    }

    fn view(&self, now: Timestamp) -> Value {
        match &self.state {
            Ok(state) => view(&self.name, state, now),
            Err(why) => {
                json!({"name": self.name, "scope": word_of(self.scope), "state": null, "why": why})
            }
        }
    }
}

/// Why the state of a breaker is unknown.
const OF_EACH: &str = "each process has its own state";

fn word_of(scope: LimitScope) -> &'static str {
    match scope {
        LimitScope::Store => "store",
        LimitScope::Process => "process",
    }
}

fn scope_of(name: &BreakerName, context: &Context) -> LimitScope {
    let known = context.config.limits.breakers.iter().find(|spec| spec.name == *name);
    known.map_or(LimitScope::Store, |spec| spec.scope)
}

/// The breakers of the store and those of the configuration, by name. Also returns the store's time.
async fn all(context: &Context) -> Result<(Vec<Listed>, Timestamp), Failure> {
    let read = context.engine.breakers().await?;
    let now = read.now;
    let state_of = |stored: StoredBreaker| {
        let state = stored.state.map(|state| state.at(now)).map_err(|why| why.to_string());
        (stored.name, state)
    };
    let mut known: BTreeMap<_, _> = read.breakers.into_iter().map(state_of).collect();
    for spec in &context.config.limits.breakers {
        known.entry(spec.name.clone()).or_insert_with(|| Ok(BreakerState::default()));
    }
    let listed = |(name, state)| match scope_of(&name, context) {
        LimitScope::Store => Listed { name, scope: LimitScope::Store, state },
        scope => Listed { name, scope, state: Err(OF_EACH.to_owned()) },
    };
    Ok((known.into_iter().map(listed).collect(), now))
}

async fn list(context: &mut Context) -> Result<Code, Failure> {
    let (breakers, now) = all(context).await?;
    if context.output.is_json() {
        let views: Vec<_> = breakers.iter().map(|listed| listed.view(now)).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let row = |listed: &Listed| {
        let failures =
            listed.state.as_ref().map_or_else(|_| String::new(), |state| state.failures_in_a_row.to_string());
        let cells =
            [listed.name.to_string(), word_of(listed.scope).to_owned(), listed.word().to_owned(), failures];
        cells.into_iter().chain([listed.remark(now)]).map(Cell::new).collect()
    };
    let rows = breakers.iter().map(row).collect();
    let header = ["breaker", "scope", "state", "failures", "why"];
    context.output.table(&header, rows, "no breaker is known yet")?;
    Ok(Code::Ok)
}

async fn show(args: &BreakerArgs, context: &mut Context) -> Result<Code, Failure> {
    let (breakers, now) = all(context).await?;
    let known: Vec<_> = breakers.iter().map(|listed| listed.name.as_str()).collect();
    let hint = match known.as_slice() {
        [] => "no breaker is stored yet; a breaker is stored when its platform has failed".to_owned(),
        _ => suggest(args.name.as_str(), known),
    };
    let missing = Failure::not_found(format_args!("breaker {}", args.name)).hint(hint);
    let listed = breakers.iter().find(|listed| listed.name == args.name).ok_or(missing)?;
    let oldest = context.engine.behind(&Gate::breaker(&listed.name), MAINTENANCE_BATCH_MAX).await?;
    if context.output.is_json() {
        let mut value = listed.view(now);
        value["waiting"] = json!(oldest.len());
        value["waiting_is_more"] = json!(oldest.len() == MAINTENANCE_BATCH_MAX as usize);
        context.output.json(&value)?;
        return Ok(Code::Ok);
    }
    let pairs = shown(listed, oldest.len(), now);
    context.output.pairs(pairs.into_iter().map(|(name, text)| (name, Cell::new(text))).collect())?;
    Ok(Code::Ok)
}

/// The lines of `show` for a breaker, as text.
fn shown(listed: &Listed, waiting: usize, now: Timestamp) -> Vec<(&'static str, String)> {
    let more = if waiting == MAINTENANCE_BATCH_MAX as usize { " or more" } else { "" };
    let mut pairs = vec![
        ("breaker", listed.name.to_string()),
        ("scope", word_of(listed.scope).to_owned()),
        ("state", listed.word().to_owned()),
        ("why", listed.remark(now)),
    ];
    if let Ok(state) = &listed.state {
        let probing: Vec<_> = state.probes.iter().map(|probe| format!("job {}", probe.job)).collect();
        pairs.extend([
            ("since", state.since.map_or("never changed".to_owned(), |since| since.to_string())),
            ("failures", format!("{} in a row", state.failures_in_a_row)),
            ("rate limits", format!("{} in a row", state.rate_limits_in_a_row)),
            ("probing", probing.join(", ")),
        ]);
    }
    pairs.push(("waiting", format!("{waiting}{more} jobs")));
    pairs
}

async fn open(args: &OpenArgs, context: &mut Context) -> Result<Code, Failure> {
    let why = args.reason.clone().unwrap_or_else(|| "opened by hand".to_owned());
    let event = BreakerEvent::Open { lasting: args.lasting, why };
    let (state, now) = change(&args.name, &event, context).await?;
    let name = &args.name;
    let text = match args.lasting {
        Some(lasting) => format!("{name} is open for {}", show_span(lasting)),
        None => format!("{name} is open until `windlass breaker close {name}`"),
    };
    context.output.either(&view(name, &state, now), || text)?;
    Ok(Code::Ok)
}

/// Closes a breaker and opens its gate. A worker would open the gate too, but no worker may know this
/// breaker.
async fn close(name: &BreakerName, event: &BreakerEvent, context: &mut Context) -> Result<Code, Failure> {
    let (state, now) = change(name, event, context).await?;
    let mut let_through = 0;
    loop {
        let batch = context.engine.open_gate(&Gate::breaker(name), OPEN_BATCH_MAX).await?;
        let_through += batch.changed;
        if !batch.more {
            break;
        }
    }
    let mut value = view(name, &state, now);
    value["let_through"] = json!(let_through);
    context.output.either(&value, || format!("{name} is closed; {let_through} waiting jobs are released"))?;
    Ok(Code::Ok)
}

async fn change(
    name: &BreakerName,
    event: &BreakerEvent,
    context: &Context,
) -> Result<(BreakerState, Timestamp), Failure> {
    if scope_of(name, context) == LimitScope::Process {
        let why =
            format!("breaker {name} has the scope `process`: {OF_EACH}, which no other process can change");
        let hint =
            "set `scope = \"store\"` in the configuration of all workers, so that they share the breaker";
        return Err(Failure::new(Code::Refused, why).hint(hint.to_owned()));
    }
    let engine: Arc<dyn Engine> = Arc::clone(&context.engine);
    let changed = change_breaker(&engine, name, event).await?;
    match changed.answer {
        Some(()) => Ok((changed.state, changed.now)),
        None => Err(Failure::new(
            Code::Failed,
            format!("breaker {name} was not changed: other processes changed it at the same time; try again"),
        )),
    }
}

fn remark(state: &BreakerState, now: Timestamp) -> String {
    match &state.circuit {
        CircuitState::Open { until: Some(until), why } => {
            format!("{}; probes in {}", printable(why), show_span(until.since(now)))
        }
        CircuitState::Open { until: None, why } => format!("{}; until it is closed", printable(why)),
        CircuitState::HalfOpen => format!("{} probing", state.probes.len()),
        CircuitState::Closed => String::new(),
    }
}

fn view(name: &BreakerName, state: &BreakerState, now: Timestamp) -> Value {
    let (until, why) = match &state.circuit {
        CircuitState::Open { until, why } => (*until, Some(why)),
        CircuitState::Closed | CircuitState::HalfOpen => (None, None),
    };
    json!({
        "name": name,
        "scope": word_of(LimitScope::Store),
        "state": state.circuit.as_str(),
        "why": why,
        "since": state.since.map(|since| since.to_string()),
        "open_until": until.map(|until| until.to_string()),
        "probes_in_seconds": until.map(|until| until.since(now).as_secs()),
        "failures_in_a_row": state.failures_in_a_row,
        "rate_limits_in_a_row": state.rate_limits_in_a_row,
        "probes": state.probes.iter().map(|probe| probe.job).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
