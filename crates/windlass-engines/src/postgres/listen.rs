//! Listening: one connection of its own that does nothing else. It is read all the time, because a listener that is not
//! read holds back the whole server's vacuum; it proves every half minute that it still hears, because one whose peer
//! went away in silence hears nothing and knows nothing; and when it is made anew, everything is looked at once.

use std::sync::Weak;
use std::time::Duration;

use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use windlass_core::engine::Hint;
use windlass_core::names::QueueName;

use super::Store;

/// The listener proves this often that it still hears.
const PROBE_EVERY: Duration = Duration::from_secs(30);
/// It must hear its own voice within this time.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// Between two tries to connect, growing from the first to the second.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// What the listener says to itself.
const PROBE: &str = "probe";
/// What is said when a running job was asked to stop.
const CANCEL: &str = "cancel";

/// Listens for as long as the engine lives.
pub(super) async fn keep_listening(store: Weak<Store>, config: Config) {
    let mut pause = AGAIN_AFTER.0;
    while let Some(channels) = store.upgrade().map(|store| store.channels.clone()) {
        let began = std::time::Instant::now();
        let ended = listen(&store, &config, channels.all(), channels.own()).await;
        if store.strong_count() == 0 {
            return;
        }
        tracing::debug!(?ended, "the listener's connection ended; it is made anew");
        if began.elapsed() > AGAIN_AFTER.1 {
            pause = AGAIN_AFTER.0;
        }
        // may sleep: a server that is away is not asked again at once, and not by all processes in the same moment.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(AGAIN_AFTER.1);
    }
}

/// One connection's life.
async fn listen(
    store: &Weak<Store>,
    config: &Config,
    all: &str,
    own: &str,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    // Both ends of the channel are ours, and what goes through is drained at once: nothing piles up.
    let (heard, mut hears) = tokio::sync::mpsc::channel::<String>(64);
    let reader = tokio::spawn(async move {
        loop {
            match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    // A full channel means that something is being told already, which is all a hint can do.
                    let _ = heard.try_send(note.payload().to_owned());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
    });
    let ended = hear(store, &client, &mut hears, all, own).await;
    drop(client);
    reader.abort();
    ended
}

async fn hear(
    store: &Weak<Store>,
    client: &Client,
    hears: &mut tokio::sync::mpsc::Receiver<String>,
    all: &str,
    own: &str,
) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(&format!("LISTEN {all}; LISTEN {own};")).await?;
    if let Some(store) = store.upgrade() {
        store.appetite().forget_marks();
        store.listeners.tell(&Hint::Any);
    }
    loop {
        let heard = match tokio::time::timeout(PROBE_EVERY, hears.recv()).await {
            Ok(heard) => heard,
            Err(_) => {
                client.batch_execute(&format!("NOTIFY {own}, '{PROBE}'")).await?;
                match tokio::time::timeout(HEARD_WITHIN, hears.recv()).await {
                    Ok(heard) => heard,
                    Err(_) => return Ok(()),
                }
            }
        };
        let (Some(heard), Some(store)) = (heard, store.upgrade()) else { return Ok(()) };
        tell(&store, &heard);
    }
}

fn tell(store: &Store, heard: &str) {
    match heard {
        PROBE => {}
        CANCEL => store.listeners.tell(&Hint::Any),
        queue => match QueueName::parse(queue) {
            Ok(queue) => store.listeners.tell(&Hint::Queue(queue.clone())),
            Err(_) => store.listeners.tell(&Hint::Any),
        },
    }
}
