//! A bounded queue in front of a thread: callers wait without blocking, the thread blocks. Urgent work goes
//! first.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::error::EngineError;

/// The maximum number of callers that wait with ordinary work; more wait outside.
const ORDINARY_MAX: usize = 4_096;
/// The maximum number of callers that wait with urgent work.
const URGENT_MAX: usize = 64;

/// The urgency of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// In turn.
    Ordinary,
    /// Before everything that is not urgent.
    Urgent,
}

/// The answer to a thread that takes the next item.
#[derive(Debug)]
pub(super) enum Taken<T> {
    /// An item, and its urgency.
    Item(Haste, T),
    /// No item, but a request to check the store.
    Check,
    /// No item, and none will come.
    Closed,
}

/// The queue of operations.
pub(super) struct Inbox<T> {
    waiting: Mutex<Waiting<T>>,
    signal: Condvar,
    ordinary: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

struct Waiting<T> {
    ordinary: VecDeque<(T, OwnedSemaphorePermit)>,
    urgent: VecDeque<(T, OwnedSemaphorePermit)>,
    check: bool,
    closed: bool,
}

impl<T> Inbox<T> {
    /// Creates an empty inbox.
    pub(super) fn new() -> Self {
        let waiting =
            Waiting { ordinary: VecDeque::new(), urgent: VecDeque::new(), check: false, closed: false };
        Self {
            waiting: Mutex::new(waiting),
            signal: Condvar::new(),
            ordinary: Arc::new(Semaphore::new(ORDINARY_MAX)),
            urgent: Arc::new(Semaphore::new(URGENT_MAX)),
        }
    }

    /// Adds an item, as soon as there is room.
    pub(super) async fn put(&self, haste: Haste, item: T) -> Result<(), EngineError> {
        let room = match haste {
            Haste::Ordinary => &self.ordinary,
            Haste::Urgent => &self.urgent,
        };
        let closed = |_| EngineError::Unusable { why: "this engine is closed".to_owned() };
        let permit = room.clone().acquire_owned().await.map_err(closed)?;
        let mut waiting = self.lock();
        match haste {
            Haste::Ordinary => waiting.ordinary.push_back((item, permit)),
            Haste::Urgent => waiting.urgent.push_back((item, permit)),
        }
        drop(waiting);
        self.signal.notify_one();
        Ok(())
    }

    /// Requests that the thread checks the store. Two requests count as one.
    pub(super) fn request_check(&self) {
        self.lock().check = true;
        self.signal.notify_one();
    }

    /// Returns the next item; waits for it.
    pub(super) fn take(&self) -> Taken<T> {
        let mut waiting = self.lock();
        loop {
            if let Some((haste, item)) = waiting.next() {
                return Taken::Item(haste, item);
            }
            if std::mem::take(&mut waiting.check) {
                return Taken::Check;
            }
            if waiting.closed {
                return Taken::Closed;
            }
            waiting = self.signal.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the next item of this urgency, if there is one already and none goes before it.
    pub(super) fn try_take(&self, haste: Haste) -> Option<T> {
        let mut waiting = self.lock();
        let is_next = haste == Haste::Urgent || waiting.urgent.is_empty();
        is_next.then(|| waiting.next_of(haste)).flatten()
    }

    /// Accepts no new item. Items in the inbox are still processed.
    pub(super) fn close(&self) {
        self.ordinary.close();
        self.urgent.close();
        self.lock().closed = true;
        self.signal.notify_all();
    }

    /// Returns the number of waiting items.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let waiting = self.lock();
        waiting.ordinary.len() + waiting.urgent.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn next(&mut self) -> Option<(Haste, T)> {
        let of = |haste| self.next_of(haste).map(|item| (haste, item));
        [Haste::Urgent, Haste::Ordinary].into_iter().find_map(of)
    }

    fn next_of(&mut self, haste: Haste) -> Option<T> {
        let queue = match haste {
            Haste::Ordinary => &mut self.ordinary,
            Haste::Urgent => &mut self.urgent,
        };
        queue.pop_front().map(|(item, _room)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_urgent_goes_ahead() {
        let inbox = Inbox::new();
        inbox.put(Haste::Ordinary, 1).await.unwrap();
        inbox.put(Haste::Urgent, 2).await.unwrap();
        assert_eq!(inbox.try_take(Haste::Ordinary), None);
        assert!(matches!(inbox.take(), Taken::Item(Haste::Urgent, 2)));
        assert_eq!(inbox.try_take(Haste::Urgent), None);
        assert!(matches!(inbox.take(), Taken::Item(Haste::Ordinary, 1)));
    }

    #[tokio::test]
    async fn what_was_put_in_before_the_end_is_still_done_and_nothing_after() {
        let inbox = Inbox::new();
        inbox.put(Haste::Ordinary, 1).await.unwrap();
        inbox.close();
        assert!(inbox.put(Haste::Ordinary, 2).await.is_err());
        assert!(matches!(inbox.take(), Taken::Item(Haste::Ordinary, 1)));
        assert!(matches!(inbox.take(), Taken::Closed));
    }

    #[tokio::test]
    async fn asking_to_look_twice_is_asking_once() {
        let inbox: Inbox<()> = Inbox::new();
        inbox.request_check();
        inbox.request_check();
        inbox.close();
        assert!(matches!(inbox.take(), Taken::Check));
        assert!(matches!(inbox.take(), Taken::Closed));
    }
}
