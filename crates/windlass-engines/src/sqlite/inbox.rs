//! A bounded queue in front of a thread: callers wait without blocking, the thread blocks. What is urgent
//! goes ahead of the rest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::error::EngineError;

/// How many callers may wait for their turn with ordinary work; more wait outside.
const ORDINARY_MAX: usize = 4_096;
/// How many may wait with urgent work.
const URGENT_MAX: usize = 64;

/// Whether something goes ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// In turn.
    Ordinary,
    /// Ahead of everything that is not urgent.
    Urgent,
}

/// What a thread gets when it asks for more.
#[derive(Debug)]
pub(super) enum Taken<T> {
    /// Something to do, and its haste.
    Item(Haste, T),
    /// Nothing, but somebody asked it to look at the store.
    Look,
    /// Nothing, and nothing will come.
    Closed,
}

/// The queue.
pub(super) struct Inbox<T> {
    waiting: Mutex<Waiting<T>>,
    bell: Condvar,
    ordinary: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

struct Waiting<T> {
    ordinary: VecDeque<(T, OwnedSemaphorePermit)>,
    urgent: VecDeque<(T, OwnedSemaphorePermit)>,
    look: bool,
    closed: bool,
}

impl<T> Inbox<T> {
    /// An empty one.
    pub(super) fn new() -> Self {
        let waiting =
            Waiting { ordinary: VecDeque::new(), urgent: VecDeque::new(), look: false, closed: false };
        Self {
            waiting: Mutex::new(waiting),
            bell: Condvar::new(),
            ordinary: Arc::new(Semaphore::new(ORDINARY_MAX)),
            urgent: Arc::new(Semaphore::new(URGENT_MAX)),
        }
    }

    /// Puts something in, as soon as there is room.
    pub(super) async fn put(&self, haste: Haste, item: T) -> Result<(), EngineError> {
        let room = match haste {
            Haste::Ordinary => &self.ordinary,
            Haste::Urgent => &self.urgent,
        };
        let closed = |_| EngineError::Unusable { why: "this engine was closed".to_owned() };
        let permit = room.clone().acquire_owned().await.map_err(closed)?;
        let mut waiting = self.lock();
        match haste {
            Haste::Ordinary => waiting.ordinary.push_back((item, permit)),
            Haste::Urgent => waiting.urgent.push_back((item, permit)),
        }
        drop(waiting);
        self.bell.notify_one();
        Ok(())
    }

    /// Asks the thread to look at the store. Asking twice is asking once.
    pub(super) fn ask_to_look(&self) {
        self.lock().look = true;
        self.bell.notify_one();
    }

    /// The next thing to do; waits for it.
    pub(super) fn take(&self) -> Taken<T> {
        let mut waiting = self.lock();
        loop {
            if let Some((haste, item)) = waiting.next() {
                return Taken::Item(haste, item);
            }
            if std::mem::take(&mut waiting.look) {
                return Taken::Look;
            }
            if waiting.closed {
                return Taken::Closed;
            }
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next thing of that haste, if it is there already and nothing goes ahead of it.
    pub(super) fn try_take(&self, haste: Haste) -> Option<T> {
        let mut waiting = self.lock();
        let is_next = haste == Haste::Urgent || waiting.urgent.is_empty();
        is_next.then(|| waiting.next_of(haste)).flatten()
    }

    /// Takes nothing new. What is there is still done.
    pub(super) fn close(&self) {
        self.ordinary.close();
        self.urgent.close();
        self.lock().closed = true;
        self.bell.notify_all();
    }

    /// How much waits.
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
        let line = match haste {
            Haste::Ordinary => &mut self.ordinary,
            Haste::Urgent => &mut self.urgent,
        };
        line.pop_front().map(|(item, _room)| item)
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
        inbox.ask_to_look();
        inbox.ask_to_look();
        inbox.close();
        assert!(matches!(inbox.take(), Taken::Look));
        assert!(matches!(inbox.take(), Taken::Closed));
    }
}
