//! The listeners of hints, each for as long as its owner keeps it. The same in every engine.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use windlass_core::engine::{Hint, HintListener};

/// The listeners of hints.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Weak<dyn HintListener>>>);

impl Listeners {
    /// Adds a listener.
    pub(crate) fn add(&self, listener: Weak<dyn HintListener>) {
        let mut listeners = self.lock();
        // Here too, since an engine may never send a hint.
        listeners.retain(is_kept);
        listeners.push(listener);
    }

    /// Sends a hint to all listeners. The lock is not held meanwhile: a listener may call the engine, add
    /// another listener, or be dropped here, as the last owner.
    pub(crate) fn tell(&self, hint: &Hint) {
        for listener in self.kept() {
            listener.hint(hint.clone());
        }
    }

    /// Returns the listeners that still have an owner, and forgets the others.
    fn kept(&self) -> Vec<Arc<dyn HintListener>> {
        let mut listeners = self.lock();
        let kept: Vec<_> = listeners.iter().filter_map(Weak::upgrade).collect();
        if kept.len() < listeners.len() {
            listeners.retain(is_kept);
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn HintListener>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_kept(listener: &Weak<dyn HintListener>) -> bool {
    listener.strong_count() > 0
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listeners")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl HintListener for Count {
        fn hint(&self, _: Hint) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn listen(listeners: &Listeners) -> Arc<Count> {
        let count = Arc::new(Count::default());
        listeners.add(Arc::<Count>::downgrade(&count));
        count
    }

    #[test]
    fn a_listener_that_is_kept_is_told_and_one_that_is_not_is_forgotten() {
        let listeners = Listeners::default();
        let (kept, dropped) = (listen(&listeners), listen(&listeners));
        listeners.tell(&Hint::Any);
        drop(dropped);
        listeners.tell(&Hint::Any);
        assert_eq!(kept.0.load(Ordering::SeqCst), 2);
        assert_eq!(listeners.lock().len(), 1);
    }

    #[test]
    fn the_dropped_do_not_gather_in_an_engine_that_tells_nothing() {
        let listeners = Listeners::default();
        (0..10).for_each(|_| drop(listen(&listeners)));
        assert_eq!(listeners.lock().len(), 1, "the last one is removed with the next");
    }
}
