//! `windlass job list`: lists jobs.

use clap::Args;
use comfy_table::Cell;
use windlass_core::admin::{ListRequest, StoredJob};
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::LIST_PAGE_MAX;
use windlass_core::names::{CorrelationId, GroupName, Key, QueueName, Tag, TypeName};
use windlass_core::span::show_span;

use crate::context::{Context, parse_id};
use crate::exit::{Code, Failure};
use crate::output::printable;
use crate::view::JobView;

/// Lists jobs, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass job list --state dead --queue high
  windlass job list --tag nightly --limit 50
  windlass job list --before 1234        the next page after job 1234")]
pub(crate) struct ListArgs {
    /// Only jobs in this state: ready, scheduled, parked, running, succeeded, dead, cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<TypeName>,
    /// Only jobs with this key
    #[arg(long, value_name = "KEY")]
    key: Option<Key>,
    /// Only jobs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<Tag>,
    /// Only jobs with this correlation id
    #[arg(long, value_name = "ID")]
    correlation: Option<CorrelationId>,
    /// Only jobs of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<GroupName>,
    /// Only jobs with a lower id
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    before: Option<JobId>,
    /// The maximum number of jobs to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(LIST_PAGE_MAX)))]
    limit: u32,
}

/// Runs `windlass job list`.
pub(crate) async fn list(args: &ListArgs, context: &mut Context) -> Result<Code, Failure> {
    if let Some(queue) = &args.queue {
        context.queue(queue).await?;
    }
    let request = ListRequest {
        job_state: args.state,
        queue: args.queue.clone(),
        job_type: args.job_type.clone(),
        key: args.key.clone(),
        tag: args.tag.clone(),
        correlation: args.correlation.clone(),
        group: args.group.clone(),
        before: args.before,
        limit: args.limit,
    };
    let records = context.engine.list(request).await?;
    print(&records, context)?;
    if records.len() as u64 == u64::from(args.limit) {
        let last = records.last().map_or(0, |record| record.job.id.0);
        context.output.note(format!("there may be more jobs: use --before {last} for the next page"));
    }
    Ok(Code::Ok)
}

/// Prints jobs as a table or as JSON.
pub(crate) fn print(records: &[StoredJob], context: &mut Context) -> Result<(), Failure> {
    if context.output.is_json() {
        return context.output.json(&records.iter().map(JobView::from).collect::<Vec<_>>());
    }
    let rows = records
        .iter()
        .map(|record| {
            let job = &record.job;
            vec![
                Cell::new(job.id),
                Cell::new(&job.job_type),
                Cell::new(&job.queue),
                context.output.job_state(record.job_state()),
                Cell::new(job.priority),
                Cell::new(job.counters.attempts),
                Cell::new(when(record)),
                Cell::new(remark(record)),
            ]
        })
        .collect();
    let header = ["id", "type", "queue", "state", "priority", "attempts", "enqueued", "remark"];
    context.output.table(&header, rows, "no jobs")
}

fn when(record: &StoredJob) -> String {
    format!("{} ago", show_span(record.job.age(record.read_at)))
}

/// The column `remark`: what a person is most likely to want to know next, in a few words.
fn remark(record: &StoredJob) -> String {
    const SHOWN: usize = 60;
    let text = match (record.job_state(), &record.last_error) {
        (JobState::Scheduled, _) => format!("due in {}", show_span(record.job.due.since(record.read_at))),
        (JobState::Parked, _) => match &record.state {
            windlass_core::job::StoredState::Waiting { gate: Some(gate) } => gate.to_string(),
            _ => String::new(),
        },
        (JobState::Dead, Some(error)) => error.text.clone(),
        (JobState::Cancelled, _) => match &record.state {
            windlass_core::job::StoredState::Cancelled { why, .. } => why.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    let line = printable(text.lines().next().unwrap_or_default());
    match line.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}
