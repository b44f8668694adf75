//! Progress notes, with a store that becomes unavailable and comes back.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::mpsc;

use super::*;

/// A store that accepts notes, is unavailable, or says that the claim is lost.
#[derive(Default)]
struct Store {
    is_away: AtomicBool,
    is_claim_lost: AtomicBool,
    asked: AtomicU32,
}

impl Store {
    /// The function that sends a note to the store; each stored note is sent to the channel.
    fn report(
        self: &Arc<Self>,
        stored: &mpsc::UnboundedSender<u8>,
    ) -> impl Fn(Progress) -> std::future::Ready<Result<Settled, EngineError>> + Send + 'static {
        let (store, stored) = (Arc::clone(self), stored.clone());
        move |progress| {
            store.asked.fetch_add(1, Ordering::SeqCst);
            std::future::ready(if store.is_away.load(Ordering::SeqCst) {
                Err(EngineError::Unavailable { why: "on purpose".to_owned() })
            } else if store.is_claim_lost.load(Ordering::SeqCst) {
                Ok(Settled::ClaimLost)
            } else {
                stored.send(progress.percent).expect("the test listens to its end");
                Ok(Settled::Applied)
            })
        }
    }
}

fn at(percent: u8) -> Progress {
    Progress { percent, note: None }
}

#[tokio::test(start_paused = true)]
async fn a_note_is_stored_before_the_handler_goes_on() {
    let (store, notes, (stored_tx, mut stored)) =
        (Arc::<Store>::default(), Arc::default(), mpsc::unbounded_channel());
    assert_eq!(ProgressNotes::note(&notes, at(10), store.report(&stored_tx)).await, Ok(()));
    assert_eq!(stored.try_recv(), Ok(10));
}

#[tokio::test(start_paused = true)]
async fn notes_cost_nothing_while_the_store_is_away_and_the_newest_is_stored_when_it_is_back() {
    let (store, notes, (stored_tx, mut stored)) =
        (Arc::<Store>::default(), Arc::default(), mpsc::unbounded_channel());
    store.is_away.store(true, Ordering::SeqCst);
    for percent in 1..=50 {
        assert_eq!(ProgressNotes::note(&notes, at(percent), store.report(&stored_tx)).await, Ok(()));
    }
    store.is_away.store(false, Ordering::SeqCst);
    assert_eq!(stored.recv().await, Some(50));
    assert_eq!(ProgressNotes::note(&notes, at(60), store.report(&stored_tx)).await, Ok(()));
    assert_eq!((stored.try_recv(), stored.try_recv().ok()), (Ok(60), None));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_holds_a_handler_up_once() {
    let notes = Arc::new(ProgressNotes::default());
    let silent = |_| std::future::pending::<Result<Settled, EngineError>>();
    let start = tokio::time::Instant::now();
    for percent in 1..=50 {
        assert_eq!(notes.note(at(percent), silent).await, Ok(()));
    }
    // The clock is paused: it moves only while a task waits.
    assert_eq!(start.elapsed().as_secs(), ANSWER_WAIT_MAX.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_is_told_also_after_the_store_was_away() {
    let (store, notes, (stored_tx, _stored)) =
        (Arc::<Store>::default(), Arc::default(), mpsc::unbounded_channel());
    store.is_away.store(true, Ordering::SeqCst);
    store.is_claim_lost.store(true, Ordering::SeqCst);
    assert_eq!(ProgressNotes::note(&notes, at(1), store.report(&stored_tx)).await, Ok(()));
    store.is_away.store(false, Ordering::SeqCst);
    let mut answers = notes.answers.subscribe();
    answers.wait_for(|answers| answers.is_claim_lost).await.expect("the note is sent again");
    assert_eq!(ProgressNotes::note(&notes, at(2), store.report(&stored_tx)).await, Err(Lost));
}

#[tokio::test(start_paused = true)]
async fn notes_are_dropped_with_the_attempt() {
    let (store, notes, (stored_tx, mut stored)) =
        (Arc::<Store>::default(), Arc::default(), mpsc::unbounded_channel());
    store.is_away.store(true, Ordering::SeqCst);
    assert_eq!(ProgressNotes::note(&notes, at(1), store.report(&stored_tx)).await, Ok(()));
    let sender = Arc::downgrade(&notes);
    drop((notes, stored_tx));
    store.is_away.store(false, Ordering::SeqCst);
    assert_eq!(stored.recv().await, None, "the task ends without sending");
    assert!(sender.upgrade().is_none());
}
