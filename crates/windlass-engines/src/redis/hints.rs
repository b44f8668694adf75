//! Notifications from other processes. One connection only listens, on two channels. On the engine's own
//! channel, another process wakes it when it has enqueued a job that a worker here waits for. On the shared
//! channel, requests to stop and free leases are published. The listener sends a probe from time to time,
//! because a connection whose peer went away in silence receives nothing and does not notice. It follows the
//! calls if they go to another server, since a cluster may move a namespace. When it reconnects, everything
//! is checked at once.

use std::sync::Weak;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::engine::Hint;
use windlass_core::names::{DutyName, QueueName};

use super::Store;
use super::conn::place_of;
use super::open::Periods;
use super::row::{ID_DIGITS, read_id};

/// The pause between two attempts to connect, growing from the first to the second.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The reason why a listener's connection ended.
type Ended = String;

/// Listens for as long as the engine lives.
pub(super) async fn keep_listening(store: Weak<Store>, periods: Periods) {
    let (mut pause, mut host) = (AGAIN_AFTER.0, 0);
    while store.strong_count() > 0 {
        let began = Instant::now();
        let Err(ended) = listen(&store, &periods, host).await else { return };
        tracing::debug!(ended, "the listener's connection ended; it reconnects");
        if began.elapsed() > AGAIN_AFTER.1 {
            pause = AGAIN_AFTER.0;
        }
        host += 1;
        // may sleep: a server that is away is not tried again at once, and not by all processes in the same
        // moment.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(AGAIN_AFTER.1);
    }
}

/// Listens on one connection. Returns `Ok` only if the engine is gone.
async fn listen(store: &Weak<Store>, periods: &Periods, host: usize) -> Result<(), Ended> {
    let Some(channels) = store.upgrade() else { return Ok(()) };
    let (own, all) = (channels.keys.wake_channel(&channels.engine), channels.keys.stops_channel());
    let mut place_of_calls = channels.work.place();
    // Any host is not enough: a server counts only its own listeners, so other servers would consider this
    // engine gone.
    let (client, _) = channels.work.find(host).await.map_err(|fault| format!("{fault:?}"))?;
    drop(channels);
    let subscribe = async {
        let mut pubsub = client.get_async_pubsub().await?;
        pubsub.subscribe(&[own.as_str(), all.as_str()]).await?;
        Ok::<_, redis::RedisError>(pubsub)
    };
    let pubsub = within(periods.probe_answer_within, subscribe).await?;
    notify_all(store);
    let (mut sink, mut messages) = pubsub.split();
    while store.strong_count() > 0 {
        tokio::select! {
            heard = tokio::time::timeout(periods.probe_every, messages.next()) => match heard {
                Ok(Some(message)) => {
                    notify(store, message.get_channel_name() == own, message.get_payload_bytes());
                }
                Ok(None) => return Err("the connection was closed".to_owned()),
                Err(_) => within(periods.probe_answer_within, sink.ping::<redis::Value>()).await.map(drop)?,
            },
            // No notification comes if the engine is gone.
            Ok(()) = place_of_calls.changed() => {
                let place = place_of_calls.borrow_and_update().clone();
                if place != place_of(&client) {
                    return Err(format!("calls go to {place} now"));
                }
            }
        }
    }
    Ok(())
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, redis::RedisError>>,
) -> Result<T, Ended> {
    match tokio::time::timeout(time, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}

/// Notifies all listeners, because anything may have changed while this process did not listen.
fn notify_all(store: &Weak<Store>) {
    if let Some(store) = store.upgrade() {
        store.listeners.tell(&Hint::Any);
    }
}

/// Passes a message on: on the engine's own channel the name of a queue, on the other a lease, or an id and a
/// token in hex.
fn notify(store: &Weak<Store>, is_own: bool, payload: &[u8]) {
    let Some(store) = store.upgrade() else { return };
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let hint = if is_own {
        QueueName::parse(text).ok().map(Hint::Queue)
    } else {
        read_lease(text).or_else(|| read_fence(text).map(Hint::Cancel))
    };
    store.listeners.tell(&hint.unwrap_or(Hint::Any));
}

fn read_lease(text: &str) -> Option<Hint> {
    DutyName::parse(text.strip_prefix("lease:")?).ok().map(Hint::Lease)
}

fn read_fence(text: &str) -> Option<Fence> {
    let (id, token) = text.split_at_checked(ID_DIGITS)?;
    let token = u128::from_str_radix(token, 16).ok()?;
    Some(Fence { job: read_id(id.as_bytes()), token: ClaimToken::from_random(token) })
}
