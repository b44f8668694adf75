//! `windlass serve`: runs workers and maintenance, as configured, until a signal.

use std::sync::Arc;

use clap::Args;
use windlass::{Stopped, Worker, WorkerOptions};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::QueueName;

use crate::config::Config;
use crate::exit::{Code, Failure, with_causes};
use crate::output::Output;
use crate::store::open_to_serve;
use crate::{samples, signals};

/// The flags of `windlass serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  windlass serve                        all configured queues
  windlass serve --queue high           only this queue, for example on a separate machine

The handlers of this build are the sample types: `windlass type list` shows them. The first SIGINT or SIGTERM
stops: no new claims, running jobs get [worker] stop_grace, unfinished jobs are given back. The second signal stops
at once.")]
pub(crate) struct ServeArgs {
    /// Serve only this queue; may be repeated
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<QueueName>,
}

/// Runs `windlass serve` until a signal.
pub(crate) async fn serve(args: &ServeArgs, config: &Config, output: &mut Output) -> Result<Code, Failure> {
    let mut signals = signals::Signals::new()?;
    let engine = open_to_serve(config).await?;
    engine.declare(config.declaration()).await?;
    let handlers = samples::handlers(None).configure(|spec| configured(spec, config));
    let mut worker = Worker::start(Arc::clone(&engine), handlers, options(args, config))
        .await
        .map_err(|why| Failure::new(Code::Store, with_causes(&why)))?;
    let info = engine.info();
    output.note(format!(
        "serving from {} ({}); SIGINT or SIGTERM stops",
        info.name,
        info.durability.as_str()
    ));
    tokio::select! {
        () = signals.next() => output.note("stopping; signal again to stop at once"),
        _ = worker.ended(None) => {
            return Err(Failure::new(Code::Failed, "the worker ended unexpectedly; see the log above for the reason"));
        }
    }
    match signals::stop(&mut worker, &mut signals).await {
        Stopped::Clean => output.note("stopped"),
        Stopped::Unsettled => {
            output.note("stopped; some jobs could not be given back, and will be rescued when the worker's lease has expired")
        }
    }
    Ok(Code::Ok)
}

/// The configured settings of a type override the defaults in code.
fn configured(spec: TypeSpec, config: &Config) -> TypeSpec {
    config.types.iter().find(|configured| configured.name == spec.name).cloned().unwrap_or(spec)
}

fn options(args: &ServeArgs, config: &Config) -> WorkerOptions {
    let serve = (!args.queues.is_empty()).then(|| args.queues.clone());
    WorkerOptions { serve, ..config.worker_options() }
}
