//! The rules. Each is a function of one job's story, and describes the fault in a sentence.

use windlass_core::job::JobState;
use windlass_core::limits::CRASHES_MAX;

use super::event::{FaultKind, Outcome, Uid};
use super::ledger::History;
use super::story::{Attempt, Fault, Stories, Story};
use super::verdict::{Finding, Verdict};

/// The promises of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Everything was drained before the dump: an unfinished job is a fault.
    pub drained: bool,
    /// The largest number of failures of a job, if the run had one limit for all.
    pub failures_max: Option<u32>,
    /// The largest number of crashes of a job.
    pub crashes_max: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { drained: true, failures_max: None, crashes_max: CRASHES_MAX }
    }
}

/// Compares the ledgers with the store's dump.
pub fn check(history: &History, rules: &Rules) -> Verdict {
    let stories = Stories::of(history);
    let mut verdict = Verdict { jobs: stories.jobs.len(), ..Verdict::default() };
    for (uid, story) in &stories.jobs {
        judge(&mut verdict, uid, story, &stories.faults, rules);
    }
    verdict
}

fn judge(verdict: &mut Verdict, uid: &Uid, story: &Story, faults: &[Fault], rules: &Rules) {
    verdict.attempts += story.attempts.len();
    let job = story.jobs.first().copied();
    let finding = |text: String| Finding { uid: uid.clone(), job, text };
    let note = |list: &mut Vec<Finding>, text: Option<String>| list.extend(text.map(finding));
    note(&mut verdict.lost, lost(story));
    note(&mut verdict.unfinished, unfinished(story, rules));
    note(&mut verdict.unexpected, unexpected(story));
    note(&mut verdict.recovered, recovered(story));
    note(&mut verdict.stored_twice, stored_twice(story));
    note(&mut verdict.ended_twice, ended_twice(story, faults));
    note(&mut verdict.forgotten_ends, forgotten_end(story));
    note(&mut verdict.started_early, started_early(story));
    note(&mut verdict.cancel_ignored, cancel_ignored(story));
    note(&mut verdict.uncounted_crashes, uncounted_crashes(story, faults));
    note(&mut verdict.over_limits, over_limits(story, rules));
    verdict.stale_accepted.extend(stale_accepted(story, faults).into_iter().map(finding));
    verdict.unexplained_attempts.extend(unexplained_attempts(story, faults).into_iter().map(finding));
}

/// Finds a job that was acknowledged, that the store does not have, and of which no end was accepted.
fn lost(story: &Story) -> Option<String> {
    let ended = !story.ends().is_empty();
    (story.acknowledged && story.finals.is_empty() && !ended)
        .then(|| format!("acknowledged, then gone after {} attempts", story.attempts.len()))
}

fn unfinished(story: &Story, rules: &Rules) -> Option<String> {
    let (job_state, _) = story.finals.iter().find(|(job_state, _)| !job_state.has_ended())?;
    rules.drained.then(|| format!("still {job_state} after the drain"))
}

fn unexpected(story: &Story) -> Option<String> {
    let how = match (story.invoked, story.acknowledged, story.refused) {
        (false, ..) => "no producer enqueued it",
        (_, false, true) => "its enqueue was refused",
        _ => return None,
    };
    story.turned_up().then(|| format!("it ran or is stored, though {how}"))
}

/// Finds a job whose enqueue had no answer, and which is there. This is legal, and worth counting: a run
/// without any such job tested nothing.
fn recovered(story: &Story) -> Option<String> {
    let unanswered = story.invoked && !story.acknowledged && !story.refused;
    (unanswered && story.turned_up()).then(|| "its enqueue had no answer, and it was stored".to_owned())
}

fn stored_twice(story: &Story) -> Option<String> {
    let numbers: Vec<_> = story.jobs.iter().map(ToString::to_string).collect();
    (numbers.len() > 1).then(|| format!("stored as jobs {}", numbers.join(" and ")))
}

/// Finds a job with too many ends. Each start over by an operator allows one more end, and attempts before
/// it. A worker that was frozen between its claim and the start begins a job that other workers have ended
/// since; it does no harm, since its end is refused.
fn ended_twice(story: &Story, faults: &[Fault]) -> Option<String> {
    let ends = story.ends();
    let allowed = 1 + story.started_over.len();
    if ends.len() > allowed {
        return Some(format!("{} ends were accepted, {allowed} may be", ends.len()));
    }
    let ran_after = |end: usize| {
        let again = story
            .attempts
            .iter()
            .find(|attempt| attempt.started > end && !was_held_up(story, attempt, faults))?;
        let restarted = story.started_over.iter().any(|line| (end..again.started).contains(line));
        (!restarted).then(|| format!("it had ended, and attempt {} began after that", again.token))
    };
    ends.into_iter().find_map(ran_after)
}

/// Finds an accepted end that the store does not show. The last accepted end and the store must agree,
/// except that an accepted cancel wins.
fn forgotten_end(story: &Story) -> Option<String> {
    let last = story.attempts.iter().rfind(|attempt| attempt.ended_job().is_some())?;
    if story.started_over.last().is_some_and(|line| Some(*line) > last.ended_job()) {
        return None;
    }
    let (job_state, _) = story.finals.first()?;
    let told = match last.end?.1 {
        Outcome::Done => JobState::Succeeded,
        Outcome::Dead => JobState::Dead,
        _ => JobState::Cancelled,
    };
    let agrees = *job_state == told || (*job_state == JobState::Cancelled && story.cancel_accepted);
    (!agrees).then(|| format!("its end as {told} was accepted, and the store reports {job_state}"))
}

/// Whether a fault may have hit the worker between this attempt's claim and its start, so that it began
/// late, with a claim that was no longer valid. Its end was not accepted.
fn was_held_up(story: &Story, attempt: &Attempt, faults: &[Fault]) -> bool {
    let Some(first) = story.attempts.first() else { return false };
    let struck = faults.iter().any(|f| f.struck(&attempt.worker, first.started_at, attempt.started_at));
    struck && !attempt.was_applied()
}

/// Finds an accepted end that was sent after a later attempt had begun: the claim was no longer valid.
fn stale_accepted(story: &Story, faults: &[Fault]) -> Vec<String> {
    let overtaken_by = |attempt: &Attempt| {
        let (sent, _) = attempt.end.filter(|_| attempt.was_applied())?;
        let later = |other: &&Attempt| {
            let between = other.started > attempt.started && other.started < sent;
            between && !was_held_up(story, other, faults)
        };
        let other = story.attempts.iter().find(later)?;
        Some(format!("the end of attempt {} was accepted, though {} had begun", attempt.token, other.token))
    };
    story.attempts.iter().filter_map(overtaken_by).collect()
}

fn unexplained_attempts(story: &Story, faults: &[Fault]) -> Vec<String> {
    let twice = story.attempts.iter().filter(|attempt| attempt.starts > 1);
    let mut found: Vec<_> =
        twice.map(|a| format!("a handler began {} times under claim {}", a.starts, a.token)).collect();
    let pairs = story.attempts.iter().zip(story.attempts.iter().skip(1));
    found.extend(pairs.filter(|(before, after)| !is_explained(story, before, after, faults)).map(
        |(before, after)| {
            let (token, worker) = (&before.token, &before.worker);
            format!("attempt {} began, though nothing ended {token} and no fault hit {worker}", after.token)
        },
    ));
    found
}

/// Whether a later attempt is explained: by the handler's outcome, by a fault that hit its worker, or by an
/// operator.
fn is_explained(story: &Story, before: &Attempt, after: &Attempt, faults: &[Fault]) -> bool {
    let put_back = before.end.is_some_and(|(line, outcome)| !outcome.is_end() && line < after.started);
    let struck = faults.iter().any(|f| f.struck(&before.worker, before.started_at, after.started_at));
    let restarted = story.started_over.iter().any(|line| (before.started..after.started).contains(line));
    put_back || struck || restarted || was_held_up(story, after, faults)
}

fn started_early(story: &Story) -> Option<String> {
    let due = story.due?;
    let early = story.attempts.iter().find(|attempt| attempt.started_at < due)?;
    Some(format!("attempt {} began at {}, and it was due at {due}", early.token, early.started_at))
}

fn cancel_ignored(story: &Story) -> Option<String> {
    let (job_state, _) = story.finals.first()?;
    let ignored = story.cancel_accepted && story.started_over.is_empty() && *job_state != JobState::Cancelled;
    ignored.then(|| format!("a cancel was accepted, and it is {job_state}"))
}

/// Finds crashes that the store did not count. A worker that was killed reports no end, so every later
/// attempt came from a rescue, which counts a crash.
fn uncounted_crashes(story: &Story, faults: &[Fault]) -> Option<String> {
    let (_, counters) = story.finals.first().filter(|_| story.started_over.is_empty())?;
    let pairs = story.attempts.iter().zip(story.attempts.iter().skip(1));
    let crashed = pairs.filter(|(before, after)| {
        let killed = |f: &Fault| {
            f.kind == FaultKind::Kill && f.struck(&before.worker, before.started_at, after.started_at)
        };
        before.end.is_none() && faults.iter().any(killed)
    });
    let crashed = crashed.count();
    let counted = counters.crashes as usize;
    (crashed > counted).then(|| format!("its worker was killed {crashed} times, and {counted} are counted"))
}

fn over_limits(story: &Story, rules: &Rules) -> Option<String> {
    let (job_state, counters) = story.finals.first()?;
    if rules.failures_max.is_some_and(|max| counters.failures > max) {
        return Some(format!("it failed {} times", counters.failures));
    }
    let crashes = counters.crashes;
    let spared = crashes == rules.crashes_max && !job_state.has_ended();
    (crashes > rules.crashes_max || spared).then(|| format!("it crashed {crashes} times and is {job_state}"))
}
