//! Readers: a few threads, each with a connection that cannot write. A read is one bounded page in one
//! snapshot, so that no reader holds up the checkpoints of the write-ahead log for long.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;
use tokio::sync::oneshot;
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use super::inbox::{Haste, Inbox, Taken};
use super::store_error::StoreResult;

/// The number of reads at once.
pub(super) const READERS: usize = 2;

/// A read, with the channel of the caller that waits for it.
pub(super) type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The inbox of reads.
pub(super) type ReaderInbox = Inbox<Read>;

/// Runs a read on a reader's thread.
pub(super) async fn call<T, F>(inbox: &ReaderInbox, act: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
{
    let (to, answer) = oneshot::channel();
    let read = move |conn: &Connection| {
        let _ = to.send(in_snapshot(conn, act).map_err(EngineError::from));
    };
    inbox.put(Haste::Ordinary, Box::new(read)).await?;
    answer.await.unwrap_or_else(|_| {
        Err(EngineError::Unavailable { why: "the engine was closed before it answered".to_owned() })
    })
}

fn in_snapshot<T>(conn: &Connection, act: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
    let snapshot = conn.unchecked_transaction()?;
    let value = act(&snapshot)?;
    snapshot.commit()?;
    Ok(value)
}

/// Reads until the inbox is closed and empty.
pub(super) fn run(conn: &Connection, inbox: &ReaderInbox) {
    loop {
        match inbox.take() {
            Taken::Item(_, read) => {
                if catch_unwind(AssertUnwindSafe(|| read(conn))).is_err() {
                    tracing::error!("a read panicked; this is a bug in Windlass");
                }
            }
            Taken::Check => {}
            Taken::Closed => return,
        }
    }
}
