//! Several calls at the same time, on real threads where the runtime has them.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::Harness;

impl Harness {
    /// Runs all calls at once and returns their results, in the order given. If one panics, this panics.
    pub async fn at_once<T: Send + 'static>(
        &self,
        calls: Vec<impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        let results = Arc::new(Mutex::new(Results::new(calls.len())));
        for (index, call) in calls.into_iter().enumerate() {
            let end = CallEnd(results.clone());
            (self.spawn)(Box::pin(async move {
                let result = call.await;
                end.store(index, result);
            }));
        }
        std::future::poll_fn(|cx| results.lock().expect(WHOLE).poll(cx.waker())).await
    }
}

const WHOLE: &str = "no call panics while holding the lock of the results";

struct Results<T> {
    results: Vec<Option<T>>,
    running: usize,
    waker: Option<Waker>,
}

impl<T> Results<T> {
    fn new(calls: usize) -> Self {
        Self { results: (0..calls).map(|_| None).collect(), running: calls, waker: None }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Vec<T>> {
        if self.running > 0 {
            self.waker = Some(waker.clone());
            return Poll::Pending;
        }
        let results = self.results.drain(..);
        Poll::Ready(results.map(|result| result.expect("a call that ran at once panicked")).collect())
    }
}

/// Notes that its call has ended, even if the call panicked: otherwise the caller would wait for ever.
struct CallEnd<T>(Arc<Mutex<Results<T>>>);

impl<T> CallEnd<T> {
    fn store(self, index: usize, result: T) {
        self.0.lock().expect(WHOLE).results[index] = Some(result);
    }
}

impl<T> Drop for CallEnd<T> {
    fn drop(&mut self) {
        let mut results = self.0.lock().expect(WHOLE);
        results.running -= 1;
        if let Some(waker) = results.waker.take() {
            waker.wake();
        }
    }
}
