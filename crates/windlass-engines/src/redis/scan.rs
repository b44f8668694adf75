//! The scan: about once a second, one script peeks at all queues and types that this process claims from and
//! has not claimed from just now. It finds due jobs that no notification announced: for example a job whose
//! due time only one worker knew, and that worker is gone, stands still or has no room. So it replaces the
//! polls of the worker pools, which are also notified of queues without due jobs.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use windlass_core::claim::{ClaimRequest, NextDue, Suspects};
use windlass_core::engine::Hint;
use windlass_core::limits::QUEUES_PER_CLAIM_MAX;
use windlass_core::names::{QueueName, TypeName};

use super::Store;
use super::store_error::StoreResult;

/// The interval between scans is at least this multiple of a scan's duration, so that scans take at most a
/// fiftieth of the time.
const SCAN_PAUSE_FACTOR: u32 = 50;
/// The maximum pause that this causes, unless one scan takes longer.
const SCAN_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a queue is scanned after the last claim from it: workers claim at least once a day.
const IN_USE_FOR: Duration = Duration::from_secs(25 * 60 * 60);

/// The queues that workers of this process claim from, with the requested types and the time of the last
/// request for each. A time for each queue would not be enough: a worker that claims all the time would keep
/// the scan from types that only another worker handles.
#[derive(Debug, Default)]
pub(super) struct InUse(HashMap<QueueName, HashMap<TypeName, Instant>>);

impl InUse {
    fn claimed(&mut self, queue: &QueueName, types: &[TypeName], now: Instant) {
        if !self.0.contains_key(queue) {
            self.0.insert(queue.clone(), HashMap::new());
        }
        let Some(requested) = self.0.get_mut(queue) else { return };
        for name in types {
            match requested.get_mut(name) {
                Some(at) => *at = now,
                None => _ = requested.insert(name.clone(), now),
            }
        }
    }

    /// The queues with types that no worker has requested for a while, and these types of all of the queues.
    fn not_requested(&mut self, every: Duration, now: Instant) -> (Vec<QueueName>, Vec<TypeName>) {
        self.0
            .values_mut()
            .for_each(|requested| requested.retain(|_, at| now.duration_since(*at) < IN_USE_FOR));
        self.0.retain(|_, requested| !requested.is_empty());
        let (mut queues, mut types) = (Vec::new(), Vec::new());
        for (queue, requested) in &self.0 {
            let known = types.len();
            let not_requested = requested.iter().filter(|(_, at)| now.duration_since(**at) >= every);
            types.extend(not_requested.map(|(name, _)| name.clone()));
            if types.len() > known {
                queues.push(queue.clone());
            }
        }
        types.sort();
        types.dedup();
        (queues, types)
    }
}

fn pause_after(every: Duration, took: Duration) -> Duration {
    every.max((took * SCAN_PAUSE_FACTOR).min(SCAN_PAUSE_MAX.max(took)))
}

impl Store {
    /// Records a claim of a worker, which is as good as a scan.
    pub(super) fn record_claim(&self, request: &ClaimRequest) {
        if request.suspects == Suspects::LeaveOut {
            let (now, mut in_use) = (Instant::now(), self.in_use());
            request.queues.iter().for_each(|queue| in_use.claimed(queue, &request.types, now));
        }
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans for as long as the engine lives.
    pub(super) async fn keep_scanning(store: Weak<Self>, every: Duration) {
        let mut pause = every;
        loop {
            // may sleep: this is the poll itself; the pause keeps what idle processes cost the server small.
            tokio::time::sleep(pause).await;
            let Some(store) = store.upgrade() else { return };
            let began = Instant::now();
            pause = match store.scan_once(every).await {
                Ok(()) => pause_after(every, began.elapsed()),
                // Its duration only says for how long the server did not answer.
                Err(fault) => {
                    tracing::debug!(error = ?fault, "scanning for due jobs failed; the next scan tries again");
                    every
                }
            };
        }
    }

    /// Scans the queues in use once: notifies the waiting workers of due jobs, and of queues without due
    /// jobs.
    async fn scan_once(&self, every: Duration) -> StoreResult<()> {
        let (queues, types) = self.in_use().not_requested(every, Instant::now());
        for queues in queues.chunks(QUEUES_PER_CLAIM_MAX) {
            let queues_due = self.peek(queues.to_vec(), types.clone()).await?;
            let (due, quiet): (Vec<_>, Vec<_>) = queues_due.into_iter().partition(|(_, peek)| is_due(*peek));
            due.into_iter().for_each(|(queue, _)| self.listeners.tell(&Hint::Queue(queue)));
            self.listeners.tell(&Hint::Quiet(quiet.into_iter().map(|(queue, _)| queue).collect()));
        }
        Ok(())
    }
}

fn is_due(peek: NextDue) -> bool {
    peek.more_due || peek.suspect_due
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn names(queue: &str, types: &[&str]) -> (QueueName, Vec<TypeName>) {
        (queue.parse().unwrap(), types.iter().map(|name| name.parse().unwrap()).collect())
    }

    #[test]
    fn a_token_that_was_just_requested_is_not_peeked_and_an_unused_key_is_forgotten() {
        let (mut in_use, start) = (InUse::default(), Instant::now());
        let ((mail, of_mail), (bulk, of_bulk)) = (names("mail", &["b", "a"]), names("bulk", &["c", "a"]));
        in_use.claimed(&mail, &of_mail, start);
        in_use.claimed(&mail, &names("mail", &["d"]).1, start);
        in_use.claimed(&bulk, &of_bulk, start + SECOND);
        assert_eq!(in_use.not_requested(SECOND, start), (vec![], vec![]));
        let of_all_mail = names("mail", &["a", "b", "d"]).1;
        assert_eq!(in_use.not_requested(SECOND, start + SECOND), (vec![mail], of_all_mail));
        let (queues, types) = in_use.not_requested(SECOND, start + 2 * SECOND);
        assert_eq!((queues.len(), types.len()), (2, 4), "each type once");
        assert_eq!(in_use.not_requested(SECOND, start + IN_USE_FOR).0, [bulk]);
    }

    #[test]
    fn who_asks_for_one_type_of_a_queue_keeps_no_look_from_the_others() {
        let (mut in_use, start) = (InUse::default(), Instant::now());
        let (mail, all) = names("mail", &["busy", "rare"]);
        in_use.claimed(&mail, &all, start);
        in_use.claimed(&mail, &all[..1], start + SECOND);
        assert_eq!(in_use.not_requested(SECOND, start + SECOND), (vec![mail], all[1..].to_vec()));
    }

    #[test]
    fn a_look_takes_a_fiftieth_of_the_time_and_comes_every_half_minute_all_the_same() {
        let pauses = [2, 200, 2_000, 60_000].map(|millis| pause_after(SECOND, Duration::from_millis(millis)));
        assert_eq!(pauses.map(|pause| pause.as_millis()), [1_000, 10_000, 30_000, 60_000]);
    }
}
