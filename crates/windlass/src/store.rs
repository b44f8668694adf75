//! Calls to an engine that are never dropped half way. Each runs in a task of its own, to its end. The
//! caller waits for it only until a deadline; after that the result is unknown to the caller.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use windlass_core::error::EngineError;

/// The time after which a caller stops waiting for the store.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Runs one call to the engine, or to a part of it, in a task of its own.
pub(crate) async fn call<E, T, F, Fut>(engine: &Arc<E>, make: F) -> Result<T, EngineError>
where
    E: ?Sized,
    T: Send + 'static,
    F: FnOnce(Arc<E>) -> Fut,
    Fut: Future<Output = Result<T, EngineError>> + Send + 'static,
{
    match tokio::time::timeout(CALL_DEADLINE, begin(make(Arc::clone(engine)))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(why)) => Err(EngineError::Unknown { why: format!("the call ended early: {why}") }),
        Err(_) => Err(EngineError::Unknown { why: format!("no answer within {CALL_DEADLINE:?}") }),
    }
}

/// Runs work to its end, whether or not the caller goes on waiting. The work begins at once: the part
/// before its first wait runs here, so that a request is on its way before another thread has woken up. The
/// rest goes on in a task of its own. The error says why the work has no end: a panic, or a runtime that is
/// shut down.
pub(crate) fn begin<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T, String>> {
    // The runtime is looked up first: if there is none and this panics, nothing may have been sent.
    let runtime = Handle::current();
    let mut work = Box::pin(work);
    // This poll wakes no task: the spawned task polls again, with its own waker.
    let first_poll = || work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let begun = match catch_unwind(AssertUnwindSafe(first_poll)) {
        Ok(Poll::Ready(done)) => Begun::Done(Ok(done)),
        Ok(Poll::Pending) => Begun::GoesOn(runtime.spawn(work)),
        Err(_) => Begun::Done(Err("it panicked".to_owned())),
    };
    async {
        match begun {
            Begun::Done(done) => done,
            Begun::GoesOn(task) => task.await.map_err(|ended| ended.to_string()),
        }
    }
}

/// The state of work after the first poll.
enum Begun<T> {
    Done(Result<T, String>),
    GoesOn(JoinHandle<T>),
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_begins_at_once_and_goes_on_though_no_caller_waits_for_it() {
        let begun = Arc::new(AtomicBool::new(false));
        let ((go_on, may_go_on), (done, was_done)) = (oneshot::channel::<()>(), oneshot::channel());
        let flag = Arc::clone(&begun);
        let work = begin(async move {
            flag.store(true, Ordering::SeqCst);
            let _ = may_go_on.await;
            let _ = done.send(());
        });
        assert!(begun.load(Ordering::SeqCst), "before any task has waited");
        drop(work);
        go_on.send(()).unwrap();
        was_done.await.expect("the work went on to its end");
    }

    #[tokio::test]
    async fn work_that_panics_at_once_or_later_says_so_and_harms_no_other_work() {
        let at_once = begin(async { panic!("at once") });
        let later = begin(async {
            tokio::task::yield_now().await;
            panic!("later")
        });
        let (at_once, later): (Result<(), _>, Result<(), _>) = (at_once.await, later.await);
        assert!(at_once.unwrap_err().contains("panicked"));
        assert!(later.unwrap_err().contains("panicked"));
    }
}
