//! Listening: one connection of its own that does nothing else.
//!
//! It is read all the time, because a listener that is not read holds back vacuum on the whole server. It
//! proves every half minute that it still receives notifications: a listener whose peer went away in
//! silence receives nothing and does not know it. When it reconnects, everything is scanned at once.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client, Config, SimpleQueryMessage};
use windlass_core::engine::{Hint, Result};
use windlass_core::names::{DutyName, QueueName};

use super::Store;
use super::address::Address;
use super::duty_locks::{Held, LockCall};
use super::hints::Channels;
use super::open::Periods;
use super::tls::Tls;

/// The pause between two tries to connect, growing from the first to the second.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Settings by which the server notices a silent peer.
///
/// The session holds locks of duties, which no other session gets for as long as the server takes this one
/// for alive. A host that is cut off sends nothing, so the server probes it, and gives up after 25 s. By
/// its own settings it would do so after two hours, or after a quarter of an hour with unacknowledged data.
/// Over a socket of the same host these settings mean nothing.
const NOTICE_A_SILENT_PEER: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; \
     SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000;";
/// Settings by which the session waits for no other. It writes only records for operators. They wait
/// neither for a session that has locked their table nor for the disk or a standby: a listener that waits
/// receives nothing, and is taken for cut off.
const DO_NOT_WAIT: &str = "SET lock_timeout = '500ms'; SET synchronous_commit = off;";
/// The payload of the notification that the listener sends to itself.
const PROBE: &str = "probe";
/// The payload of the notification that a running job was asked to stop.
const CANCEL: &str = "cancel";
/// The prefix of payloads that say that a lease is free, or that its holder was asked to give way. The name
/// of a queue has no colon.
pub(super) const LEASE: &str = "lease:";

/// The reason why a listener's connection ended; nothing, if it was closed.
type Ended = std::result::Result<(), String>;

/// The address and TLS of a listener's connection.
pub(super) struct Listener {
    config: Config,
    tls: Tls,
}

impl Listener {
    pub(super) fn at(address: &Address) -> Result<Self> {
        Ok(Self { config: address.config().clone(), tls: address.connector()? })
    }
}

/// Listens for as long as the engine lives.
pub(super) async fn keep_listening(
    store: Weak<Store>,
    listener: Listener,
    periods: Periods,
    mut calls: Receiver<LockCall>,
) {
    let mut pause = AGAIN_AFTER.0;
    while let Some(channels) = store.upgrade().map(|store| store.channels.clone()) {
        let began = Instant::now();
        let ended = listen(&store, &listener, &periods, &channels, &mut calls).await;
        if store.strong_count() == 0 {
            return;
        }
        tracing::debug!(?ended, "the listener's connection ended; reconnecting");
        if began.elapsed() > AGAIN_AFTER.1 {
            pause = AGAIN_AFTER.0;
        }
        // may sleep: a server that is away is not tried again at once, and not by all processes in the same
        // moment.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(AGAIN_AFTER.1);
    }
}

/// Runs one connection until it ends. Returns the reason.
async fn listen(
    store: &Weak<Store>,
    listener: &Listener,
    periods: &Periods,
    channels: &Channels,
    calls: &mut Receiver<LockCall>,
) -> Ended {
    // The driver's own timeout is for the first packet only; this one also covers a peer that accepts and
    // then falls silent.
    let connected =
        tokio::time::timeout(periods.probe_answer_within, listener.config.connect(listener.tls.clone()))
            .await;
    let (client, mut connection) = connected
        .map_err(|_| "the server accepts the connection, and does not answer".to_owned())?
        .map_err(text_of)?;
    let (sender, mut payloads) = tokio::sync::mpsc::channel::<String>(64);
    let reader = tokio::spawn(async move {
        loop {
            match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    // Hints past a full channel are lost. A scan finds the work that they announced, and a
                    // heartbeat finds requests to stop a job.
                    let _ = sender.try_send(note.payload().to_owned());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
    });
    let ended = receive(store, &client, &mut payloads, periods, channels, calls).await;
    // Not left to the driver: it would wait for the answer to the last query.
    reader.abort();
    ended
}

async fn receive(
    store: &Weak<Store>,
    client: &Client,
    payloads: &mut Receiver<String>,
    periods: &Periods,
    channels: &Channels,
    calls: &mut Receiver<LockCall>,
) -> Ended {
    // The channels stand first: by them people find this session among the server's others.
    let (all, own) = (channels.all(), channels.own());
    let listen = format!("LISTEN {all}; LISTEN {own}; {NOTICE_A_SILENT_PEER} {DO_NOT_WAIT}");
    execute(client, &listen, periods).await?;
    let Some(mut held) = store.upgrade().map(|store| {
        store.idle_registry().forget_marks();
        store.listeners.tell(&Hint::Any);
        Held::by_new_session(&store)
    }) else {
        return Ok(());
    };
    let mut probe_at = Instant::now() + periods.probe_every;
    loop {
        let wake_at = held.next_lapse().map_or(probe_at, |lapse| probe_at.min(lapse.into()));
        let payload = tokio::select! {
            payload = payloads.recv() => payload,
            Some(call) = calls.recv() => {
                in_time(held.serve(call, client), periods).await?;
                continue;
            }
            () = tokio::time::sleep_until(wake_at) => {
                in_time(held.let_lapse(client), periods).await?;
                if Instant::now() < probe_at {
                    continue;
                }
                probe(client, periods, channels).await?;
                let own_notification = tokio::time::timeout(periods.probe_answer_within, payloads.recv()).await;
                own_notification.map_err(|_| "its own notification did not arrive".to_owned())?
            }
        };
        let (Some(payload), Some(store)) = (payload, store.upgrade()) else { return Ok(()) };
        probe_at = Instant::now() + periods.probe_every;
        deliver(&store, &payload);
    }
}

/// Waits for an answer of the server, within the time limit.
async fn in_time(
    asked: impl Future<Output = std::result::Result<(), tokio_postgres::Error>>,
    periods: &Periods,
) -> Ended {
    let answered = tokio::time::timeout(periods.probe_answer_within, asked).await;
    answered.map_err(|_| "the server does not answer".to_owned())?.map_err(text_of)
}

/// Sends a notification to itself. A server that became read-only would deliver it for ever, while the
/// server that took over notifies the sessions that listen there; so this also checks that the server takes
/// writes.
async fn probe(client: &Client, periods: &Periods, channels: &Channels) -> Ended {
    let text = format!(
        "SELECT current_setting('transaction_read_only'), pg_notify('{}', '{PROBE}')",
        channels.own()
    );
    let answer = tokio::time::timeout(periods.probe_answer_within, client.simple_query(&text)).await;
    let answers = answer.map_err(|_| "the server does not answer".to_owned())?.map_err(text_of)?;
    let is_read_only = |answer: &SimpleQueryMessage| matches!(answer, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
    if answers.iter().any(is_read_only) {
        return Err("the server takes no writes any more".to_owned());
    }
    Ok(())
}

/// Runs statements within a time limit. A peer that went away in silence does not answer, and causes no
/// error either.
async fn execute(client: &Client, text: &str, periods: &Periods) -> Ended {
    let answer = tokio::time::timeout(periods.probe_answer_within, client.batch_execute(text)).await;
    answer.map_err(|_| "the server does not answer".to_owned())?.map_err(text_of)
}

fn text_of(error: tokio_postgres::Error) -> String {
    error.to_string()
}

fn deliver(store: &Store, payload: &str) {
    if payload == PROBE {
        return;
    }
    let hint = hint(payload).unwrap_or(Hint::Any);
    if let Hint::Queue(queue) = &hint {
        store.claim_cursors().notified(queue);
    }
    store.listeners.tell(&hint);
}

/// The hint in a payload, if it says what exactly has changed.
fn hint(payload: &str) -> Option<Hint> {
    if payload == CANCEL {
        return None;
    }
    match payload.strip_prefix(LEASE) {
        Some(duty) => DutyName::parse(duty).ok().map(Hint::Lease),
        None => QueueName::parse(payload).ok().map(Hint::Queue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_is_told_to_notice_within_half_a_minute_that_a_listeners_host_is_gone() {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let address = Address::parse(&url).expect("a valid database URL");
        let client = address.connect().await.expect("the server is up");
        client.batch_execute(NOTICE_A_SILENT_PEER).await.expect("the server knows these settings");
        let mut shown = Vec::new();
        for of in
            ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"]
        {
            let row = client.query_one(&format!("SHOW {of}"), &[]).await.expect("a setting");
            shown.push(row.get::<_, String>(0));
        }
        assert!(url.contains("@127.0.0.1:"), "a Unix socket has no such settings: {url}");
        assert_eq!(shown, ["10", "5", "3", "25000"]);
    }
}
