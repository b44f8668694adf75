//! Explains the state of a job in a sentence: what it waits for and what would change that.

use windlass_core::admin::{QueueStatus, StoredJob, TypeStatus};
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::span::show_span;

/// The state of a job in one sentence. `ahead` is the unfinished job before it with the same ordering key,
/// if there is one.
pub(crate) fn explain(
    record: &StoredJob,
    queue: Option<&QueueStatus>,
    kind: Option<&TypeStatus>,
    ahead: Option<JobId>,
) -> String {
    let now = record.read_at;
    match &record.state {
        StoredState::Waiting { gate: Some(gate) } => match ahead.filter(|_| gate.is_of_ordering_key()) {
            Some(ahead) => format!("parked: {}; it waits for job {ahead}", gate.explain()),
            None => format!("parked: {}", gate.explain()),
        },
        StoredState::Waiting { gate: None } => waiting(record, queue, kind),
        StoredState::Running { worker, since, cancel_requested } => {
            let running = format!("running for {} on worker {worker}", show_span(now.since(*since)));
            match cancel_requested {
                Some(why) => format!("{running}; asked to stop: {why}"),
                None => running,
            }
        }
        StoredState::Succeeded { at, .. } => format!("succeeded {} ago", show_span(now.since(*at))),
        StoredState::Dead { at, error } => {
            format!("dead for {}: {} ({})", show_span(now.since(*at)), first_line(&error.text), error.kind)
        }
        StoredState::Cancelled { at, why } => format!("cancelled {} ago: {why}", show_span(now.since(*at))),
    }
}

fn waiting(record: &StoredJob, queue: Option<&QueueStatus>, kind: Option<&TypeStatus>) -> String {
    let now = record.read_at;
    let when = match record.job_state() {
        JobState::Scheduled => format!("scheduled: due in {}", show_span(record.job.due.since(now))),
        _ => format!("ready: due for {}", show_span(record.job.waited(now))),
    };
    let pause = queue.and_then(|queue| queue.pause.as_ref()).filter(|pause| pause.holds(now));
    if let Some(pause) = pause {
        let why = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        return format!("{when}; its queue is paused{why}");
    }
    match kind {
        Some(kind) if kind.workers == 0 => format!("{when}; no live worker handles its type"),
        _ if record.job_state() == JobState::Ready => format!("{when}; waits for a free worker"),
        _ => when,
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
