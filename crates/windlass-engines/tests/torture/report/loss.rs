//! What a store may lose: writes that it acknowledged just before it was stopped. Their loss is counted,
//! and is no fault; every other loss is a fault.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_conformance::history::{Entry, Event, History, SettleAnswer, Uid, Verdict};
use windlass_core::clock::Timestamp;

#[derive(Debug)]
pub(super) struct Loss {
    /// The span before a stop.
    pub(super) may_lose: Duration,
    /// Jobs that are gone, and whose end was not acknowledged.
    pub(super) lost: usize,
    /// Jobs that had ended, and of which the store has no trace.
    pub(super) forgotten: usize,
    /// The jobs among them that the store should have: they were not enqueued just before a stop.
    pub(super) forgotten_early: Vec<Uid>,
    /// Jobs that ran again because their end is lost.
    pub(super) run_again: usize,
    /// Ids of lost jobs that other jobs got.
    pub(super) given_twice: usize,
}

impl Loss {
    /// Removes from a verdict what the store may lose.
    pub(super) fn take_out_of(
        verdict: &mut Verdict,
        history: &History,
        ends: &[(Timestamp, Timestamp)],
        may_lose: Duration,
    ) -> Self {
        // An answer from before the stop may have been recorded a moment after it.
        let is_late = |entry: &&Entry| {
            !may_lose.is_zero()
                && ends.iter().any(|(from, back)| entry.at.plus(may_lose) >= *from && entry.at <= *back)
        };
        let late = || history.entries.iter().filter(is_late).map(|entry| &entry.event);
        let enqueued: BTreeSet<_> = late().filter_map(enqueued).collect();
        let ended: BTreeSet<_> = late().filter_map(ended).collect();
        let mut forgotten_early = forgotten(verdict, history);
        let lost = take(&mut verdict.lost, |finding| enqueued.contains(&finding.uid));
        let run_again = take(&mut verdict.ended_twice, |finding| ended.contains(&finding.uid));
        let forgotten = take(&mut forgotten_early, |uid| enqueued.contains(uid));
        Self { may_lose, lost, forgotten, forgotten_early, run_again, given_twice: given_twice(history) }
    }
}

/// Finds acknowledged jobs of which the store has no trace, and that are not lost, because they had ended.
/// No worker here prunes.
fn forgotten(verdict: &Verdict, history: &History) -> Vec<Uid> {
    let of = |pick: fn(&Event) -> Option<&Uid>| -> BTreeSet<&Uid> {
        history.entries.iter().filter_map(|entry| pick(&entry.event)).collect()
    };
    let lost: BTreeSet<_> = verdict.lost.iter().map(|finding| &finding.uid).collect();
    let (enqueued, known) = (of(enqueued), of(known));
    enqueued.into_iter().filter(|uid| !known.contains(uid) && !lost.contains(uid)).cloned().collect()
}

fn given_twice(history: &History) -> usize {
    let given = |entry: &Entry| match entry.event {
        Event::Acknowledged { job, .. } => Some(job),
        _ => None,
    };
    let given: Vec<_> = history.entries.iter().filter_map(given).collect();
    given.len() - given.iter().collect::<BTreeSet<_>>().len()
}

fn known(event: &Event) -> Option<&Uid> {
    match event {
        Event::Final { uid, .. } => Some(uid),
        _ => None,
    }
}

fn enqueued(event: &Event) -> Option<&Uid> {
    match event {
        Event::Acknowledged { uid, .. } => Some(uid),
        _ => None,
    }
}

fn ended(event: &Event) -> Option<&Uid> {
    match event {
        Event::Settled { uid, answer: SettleAnswer::Applied, .. } => Some(uid),
        _ => None,
    }
}

/// Removes the matching items, and returns how many these were.
fn take<T>(all: &mut Vec<T>, is_so: impl Fn(&T) -> bool) -> usize {
    let before = all.len();
    all.retain(|one| !is_so(one));
    before - all.len()
}

#[test]
fn what_was_acknowledged_long_before_an_end_is_lost_and_no_excuse_is_accepted() {
    let at = |seconds| Timestamp::EPOCH.plus(Duration::from_secs(seconds));
    let mut history = History::default();
    for (uid, second) in [("early", 7), ("late", 9)] {
        let (uid, job) = (Uid::from(uid), windlass_core::job::JobId(1));
        history.push(at(second), Event::Invoke { uid: uid.clone(), due: None });
        history.push(at(second), Event::Acknowledged { uid, job });
    }
    let judge = |may_lose| {
        let mut verdict = windlass_conformance::history::check(&history, &Default::default());
        let loss = Loss::take_out_of(&mut verdict, &history, &[(at(10), at(11))], may_lose);
        (loss.lost, verdict.lost.iter().map(|finding| finding.uid.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(judge(Duration::from_secs(2)), (1, vec!["early".to_owned()]));
    assert_eq!(judge(Duration::ZERO).1.len(), 2);
}
