//! Stores the progress of a handler. An unavailable store must cost a handler nothing: the newest note is
//! kept and sent again until the store accepts it or the handler has ended. Only a lost claim is reported
//! to the handler.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass_core::error::EngineError;
use windlass_core::job::Progress;
use windlass_core::settle::Settled;

use crate::store;
use crate::worker::backoff::Backoff;

/// The longest time that a handler waits for the store to accept a note.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);

/// The progress notes of one attempt: at most one in flight, and the newest behind it.
#[derive(Debug, Default)]
pub(super) struct ProgressNotes {
    unsent: Mutex<Unsent>,
    answers: watch::Sender<Answers>,
}

#[derive(Debug, Default)]
struct Unsent {
    /// The newest note that the store has not accepted, with its number.
    newest: Option<(u64, Progress)>,
    /// The number of the last note.
    last: u64,
    is_sending: bool,
}

/// The store's answers so far.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    /// Notes up to this number are stored, or were replaced by newer ones.
    up_to: u64,
    is_away: bool,
    is_claim_lost: bool,
}

/// The claim is lost: another worker owns the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

impl ProgressNotes {
    /// Sends a note by `report`, and waits a moment for the answer unless the store is known to be away.
    pub(super) async fn note<F, Fut>(self: &Arc<Self>, progress: Progress, report: F) -> Result<(), Lost>
    where
        F: Fn(Progress) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Settled, EngineError>> + Send + 'static,
    {
        let mut answers = self.answers.subscribe();
        let (number, starts) = self.put(progress);
        if starts {
            let notes = Arc::clone(self);
            // No task waits for its end: it ends once all notes are stored, or with the attempt.
            drop(store::begin(async move { notes.send_all(report).await }));
        }
        let answered =
            answers.wait_for(|answers| answers.up_to >= number || answers.is_away || answers.is_claim_lost);
        if tokio::time::timeout(ANSWER_WAIT_MAX, answered).await.is_err() {
            self.answers.send_modify(|answers| answers.is_away = true);
        }
        if self.answers.borrow().is_claim_lost { Err(Lost) } else { Ok(()) }
    }

    /// Keeps a note in place of an older one. Returns its number, and whether the caller has to start
    /// sending.
    fn put(&self, progress: Progress) -> (u64, bool) {
        let mut unsent = self.lock();
        unsent.last += 1;
        unsent.newest = Some((unsent.last, progress));
        (unsent.last, !std::mem::replace(&mut unsent.is_sending, true))
    }

    async fn send_all<F, Fut>(self: Arc<Self>, report: F)
    where
        F: Fn(Progress) -> Fut,
        Fut: Future<Output = Result<Settled, EngineError>>,
    {
        let (started, mut backoff) = (Instant::now(), Backoff::default());
        while let Some((number, progress)) = self.next() {
            let answer = report(progress.clone()).await;
            if let Err(error) = &answer
                && (error.is_passing() || error.is_away())
            {
                tracing::debug!(%error, "storing progress failed; the newest note is sent again");
                self.keep(number, progress);
                self.answers.send_modify(|answers| answers.is_away = true);
                backoff.failed(started.elapsed());
                tokio::time::sleep(backoff.until().saturating_sub(started.elapsed())).await;
                continue;
            }
            backoff.reset();
            self.answered(number, answer);
        }
    }

    fn answered(&self, number: u64, answer: Result<Settled, EngineError>) {
        if let Err(error) = &answer {
            tracing::warn!(%error, "the store refuses this progress note; dropping it");
        }
        let is_claim_lost = matches!(answer, Ok(Settled::ClaimLost));
        self.answers
            .send_modify(|answers| *answers = Answers { up_to: number, is_away: false, is_claim_lost });
    }

    /// The note to send next. None if all are stored, if the claim is lost, or if the attempt has ended:
    /// then only the task that sends is left.
    fn next(self: &Arc<Self>) -> Option<(u64, Progress)> {
        let mut unsent = self.lock();
        let is_over = Arc::strong_count(self) == 1 || self.answers.borrow().is_claim_lost;
        let next = unsent.newest.take().filter(|_| !is_over);
        unsent.is_sending = next.is_some();
        next
    }

    /// Keeps a note that the store has not accepted, unless there is a newer one.
    fn keep(&self, number: u64, progress: Progress) {
        self.lock().newest.get_or_insert((number, progress));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
