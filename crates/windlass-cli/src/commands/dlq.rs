//! `windlass dlq`: inspects, retries and discards dead letters.

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_core::admin::{Changed, ListRequest, StoredJob};
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::LIST_PAGE_MAX;
use windlass_core::names::{QueueName, TypeName};

use super::job::act::retry_one;
use super::job::{list, show};
use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};

/// Inspect dead letters; retry or discard them.
#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, newest first
    List(DlqListArgs),
    /// Show everything about a dead letter
    #[command(after_help = "Example:\n  windlass dlq show 42")]
    Show(DlqShowArgs),
    /// Retry dead letters with fresh counters
    #[command(after_help = "\
Examples:
  windlass dlq retry 42 43
  windlass dlq retry --queue high --all --yes

Exit codes: 3 no such job, 4 not a dead letter, its key is held, or not confirmed, 5 some failed.")]
    Retry(DlqActArgs),
    /// Delete dead letters
    #[command(after_help = "\
Examples:
  windlass dlq discard 42
  windlass dlq discard --type mail.send --all --yes

Exit codes: 3 no such job, 4 not a dead letter or not confirmed, 5 some failed.")]
    Discard(DlqActArgs),
}

/// The flags that select which dead letters to list.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass dlq list --queue high --limit 50")]
pub(crate) struct DlqListArgs {
    /// Only dead letters of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only dead letters of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<TypeName>,
    /// Only dead letters with a lower id
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    before: Option<JobId>,
    /// The maximum number of dead letters to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(LIST_PAGE_MAX)))]
    limit: u32,
}

/// Names a dead letter.
#[derive(Debug, Args)]
pub(crate) struct DlqShowArgs {
    /// The id of the job
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: JobId,
}

/// The dead letters to act on: some by id, or all of a queue or type.
#[derive(Debug, Args)]
pub(crate) struct DlqActArgs {
    /// The ids of the jobs
    #[arg(value_name = "ID", value_parser = parse_id, required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<JobId>,
    /// All dead letters, or all of --queue or --type
    #[arg(long)]
    all: bool,
    /// Only dead letters of this queue
    #[arg(long, value_name = "QUEUE", requires = "all")]
    queue: Option<QueueName>,
    /// Only dead letters of this type
    #[arg(long = "type", value_name = "TYPE", requires = "all")]
    job_type: Option<TypeName>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// What to do with a dead letter.
#[derive(Debug, Clone, Copy)]
enum Act {
    Retry,
    Discard,
}

/// Runs a dlq command.
pub(crate) async fn run(command: &DlqCommand, context: &mut Context) -> Result<Code, Failure> {
    match command {
        DlqCommand::List(args) => list_dead(args, context).await,
        DlqCommand::Show(args) => {
            let record = dead_letter(args.id, context).await?;
            show::in_full(&record, context).await?;
            Ok(Code::Ok)
        }
        DlqCommand::Retry(args) => act(Act::Retry, args, context).await,
        DlqCommand::Discard(args) => act(Act::Discard, args, context).await,
    }
}

async fn list_dead(args: &DlqListArgs, context: &mut Context) -> Result<Code, Failure> {
    if let Some(queue) = &args.queue {
        context.queue(queue).await?;
    }
    let request = ListRequest {
        job_state: Some(JobState::Dead),
        queue: args.queue.clone(),
        job_type: args.job_type.clone(),
        before: args.before,
        limit: args.limit,
        ..ListRequest::default()
    };
    let records = context.engine.list(request).await?;
    list::print(&records, context)?;
    Ok(Code::Ok)
}

async fn dead_letter(id: JobId, context: &Context) -> Result<StoredJob, Failure> {
    let record = context.job(id).await?;
    match record.job_state() {
        JobState::Dead => Ok(record),
        job_state => {
            Err(Failure::new(Code::Refused, format!("job {id} is not a dead letter: it is {job_state}")))
        }
    }
}

async fn act(act: Act, args: &DlqActArgs, context: &mut Context) -> Result<Code, Failure> {
    let ids = if args.all { confirmed(act, args, context).await? } else { args.ids.clone() };
    let mut failures = Vec::new();
    for id in &ids {
        match do_one(act, *id, context).await {
            Ok(()) => {}
            // An unavailable store would fail for each of the next jobs, too.
            Err(failure) if failure.code == Code::Store => return Err(failure),
            Err(failure) => failures.push((*id, failure)),
        }
    }
    report(act, ids.len(), failures, context)
}

async fn do_one(act: Act, id: JobId, context: &Context) -> Result<(), Failure> {
    match act {
        Act::Retry => {
            dead_letter(id, context).await?;
            retry_one(id, context).await
        }
        Act::Discard => match context.engine.discard(id).await? {
            Changed::Done => Ok(()),
            Changed::Unchanged | Changed::NotFound => dead_letter(id, context).await.map(drop),
        },
    }
}

/// Returns the ids of all selected dead letters, once the operator has confirmed the act.
async fn confirmed(act: Act, args: &DlqActArgs, context: &mut Context) -> Result<Vec<JobId>, Failure> {
    if let Some(queue) = &args.queue {
        context.queue(queue).await?;
    }
    let ids = all_dead(args, context).await?;
    let verb = match act {
        Act::Retry => "starts over",
        Act::Discard => "deletes",
    };
    context.confirm(args.yes, &format!("this {verb} {} dead letters", ids.len()), "all")?;
    Ok(ids)
}

async fn all_dead(args: &DlqActArgs, context: &Context) -> Result<Vec<JobId>, Failure> {
    let mut ids: Vec<JobId> = Vec::new();
    loop {
        let request = ListRequest {
            job_state: Some(JobState::Dead),
            queue: args.queue.clone(),
            job_type: args.job_type.clone(),
            before: ids.last().copied(),
            limit: LIST_PAGE_MAX,
            ..ListRequest::default()
        };
        let page = context.engine.list(request).await?;
        ids.extend(page.iter().map(|record| record.job.id));
        if page.len() < LIST_PAGE_MAX as usize {
            return Ok(ids);
        }
    }
}

fn report(
    act: Act,
    asked: usize,
    failures: Vec<(JobId, Failure)>,
    context: &mut Context,
) -> Result<Code, Failure> {
    let done = asked - failures.len();
    if let ([(_, only)], 0) = (failures.as_slice(), done) {
        return Err(only.clone());
    }
    let what = match act {
        Act::Retry => "retried",
        Act::Discard => "discarded",
    };
    let refused: Vec<_> =
        failures.iter().map(|(id, failure)| json!({ "id": id, "error": failure.message })).collect();
    context.output.either(&json!({ what: done, "refused": refused }), || format!("{done} {what}"))?;
    for (_, failure) in &failures {
        context.output.complain(&failure.message);
    }
    Ok(match (done, failures.first()) {
        (_, None) => Code::Ok,
        (0, Some((_, first))) => first.code,
        _ => Code::Partly,
    })
}

#[cfg(test)]
mod tests;
