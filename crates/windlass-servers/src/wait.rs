//! Waits for other processes. They send no signal to wait for, so this polls.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Error;

const PAUSE: Duration = Duration::from_millis(5);

/// Polls until there is an answer. Returns `None` at the time limit.
pub(crate) fn until<T>(
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let start = Instant::now();
    loop {
        let answer = look()?;
        if answer.is_some() || start.elapsed() > limit {
            return Ok(answer);
        }
        sleep(PAUSE);
    }
}
