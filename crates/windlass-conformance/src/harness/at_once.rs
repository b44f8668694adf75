//! Several calls at the same time, on real threads where the runtime has them.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::Harness;

impl Harness {
    /// Runs all of these at once and gives their results, in the order given. If one panics, this panics.
    pub async fn at_once<T: Send + 'static>(
        &self,
        calls: Vec<impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        let board = Arc::new(Mutex::new(Board::new(calls.len())));
        for (seat, call) in calls.into_iter().enumerate() {
            let leaver = Leaver(board.clone());
            (self.spawn)(Box::pin(async move {
                let result = call.await;
                leaver.leave(seat, result);
            }));
        }
        std::future::poll_fn(|cx| board.lock().expect(WHOLE).poll(cx.waker())).await
    }
}

const WHOLE: &str = "nobody panics while holding the board";

struct Board<T> {
    results: Vec<Option<T>>,
    running: usize,
    waker: Option<Waker>,
}

impl<T> Board<T> {
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

/// Tells the board when its call is over, even if it panicked: else the waiter would wait for ever.
struct Leaver<T>(Arc<Mutex<Board<T>>>);

impl<T> Leaver<T> {
    fn leave(self, seat: usize, result: T) {
        self.0.lock().expect(WHOLE).results[seat] = Some(result);
    }
}

impl<T> Drop for Leaver<T> {
    fn drop(&mut self) {
        let mut board = self.0.lock().expect(WHOLE);
        board.running -= 1;
        if let Some(waker) = board.waker.take() {
            waker.wake();
        }
    }
}
