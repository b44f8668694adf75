//! Connections. Calls share one connection, which pipelines commands and gives each its answer; heartbeats
//! have a connection of their own. The next call replaces a connection that breaks, falls silent or leads to
//! a server that takes no writes.
//!
//! A namespace is in one slot, so in a cluster, too, one server has all of it: the first server that is
//! queried says which.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Value};
use tokio::sync::{Mutex, watch};

use super::address::Address;
use super::store_error::{StoreError, StoreResult};

/// How long a new connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// For how long, about, no connection is tried to a server that could not be reached or refused the login.
/// Calls fail with the same error meanwhile.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
/// The maximum number of redirects by a cluster. After that the cluster itself does not know which server has
/// the slot.
const REDIRECTS_MAX: usize = 5;
/// The number of calls that a connection takes over at once. Further calls wait, and not always in the order
/// in which they came.
pub(super) const PIPELINE_MAX: usize = 50;

/// The way to a server, with its current connection.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    /// A key in the slot of the namespace, for a query that finds its server.
    probe: String,
    answer_within: Duration,
    /// The number of connections that were made so far.
    made: AtomicU64,
    /// The server that the last connection led to.
    place: watch::Sender<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Wire>,
    /// The index of the host that the last connection led to, if not the first.
    host: usize,
    failed: Option<(Instant, StoreError)>,
}

impl State {
    /// The error of the last attempt to connect, if it was a moment ago.
    fn failed_lately(&self) -> Option<StoreError> {
        let (at, fault) = self.failed.as_ref()?;
        let is_lately = at.elapsed() < RECONNECT_AFTER.mul_f64(0.5 + fastrand::f64());
        fault.again().filter(|_| is_lately)
    }
}

/// A connection and its number.
#[derive(Clone)]
struct Wire {
    connection: MultiplexedConnection,
    number: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("host", &self.host)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(address: Arc<Address>, probe: String, answer_within: Duration) -> Self {
        let (made, place, state) = (AtomicU64::new(0), watch::Sender::default(), Mutex::default());
        Self { address, probe, answer_within, made, place, state }
    }

    /// The server that connections lead to, for tasks that follow it when it changes.
    pub(super) fn place(&self) -> watch::Receiver<String> {
        self.place.subscribe()
    }

    /// The number of connections that were made so far. Another connection may lead to another server.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Sends a command and waits for its answer. If a connection takes the command at once, it is handed over
    /// before the first wait: commands that are sent on this link from then on come behind it.
    pub(super) async fn query(&self, command: &Cmd) -> StoreResult<Value> {
        let wire = self.wire().await?;
        let answer = self.answered(wire.connection.clone(), command).await;
        if let Err(fault) = &answer
            && fault.needs_another_connection()
        {
            self.drop_wire(wire.number).await;
        }
        answer
    }

    async fn answered(&self, mut connection: MultiplexedConnection, command: &Cmd) -> StoreResult<Value> {
        let sending = connection.send_packed_command(command);
        let answer = tokio::time::timeout(self.answer_within, sending).await;
        let answer =
            answer.map_err(|_| StoreError::Lost(format!("no answer within {:?}", self.answer_within)))?;
        answer.and_then(Value::extract_error).map_err(StoreError::of_call)
    }

    async fn wire(&self) -> StoreResult<Wire> {
        let mut state = self.state.lock().await;
        if let Some(wire) = &state.current {
            return Ok(wire.clone());
        }
        if let Some(fault) = state.failed_lately() {
            return Err(fault);
        }
        match self.find(state.host).await {
            Ok((client, connection)) => {
                let number = self.made.fetch_add(1, Ordering::SeqCst) + 1;
                self.leads_to(place_of(&client));
                state.failed = None;
                Ok(state.current.insert(Wire { connection, number }).clone())
            }
            Err(fault) => {
                state.host += 1;
                state.failed = fault.again().map(|fault| (Instant::now(), fault));
                Err(fault)
            }
        }
    }

    fn leads_to(&self, place: String) {
        self.place.send_if_modified(|known| {
            let is_another = *known != place;
            *known = place;
            is_another
        });
    }

    /// Drops a connection, unless another task has replaced it meanwhile.
    async fn drop_wire(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.current.as_ref().is_some_and(|wire| wire.number == number) {
            state.current = None;
            state.host += 1;
        }
    }

    /// Finds the server that has the namespace and takes writes, beginning with one of the hosts. If the URL
    /// names several hosts, some may be replicas, which answer queries from older data: they are skipped.
    pub(super) async fn find(&self, host: usize) -> StoreResult<(Client, MultiplexedConnection)> {
        let mut passed_over = String::new();
        for next in 0..self.address.count() {
            let (client, connection) = self.connect(host + next).await?;
            if self.address.count() == 1 || !self.is_replica(&connection).await? {
                return Ok((client, connection));
            }
            passed_over = place_of(&client);
        }
        Err(StoreError::Unreachable(format!(
            "none of the servers at {} takes writes; the last one, {passed_over}, is a replica; add the primary to the URL",
            self.address.place()
        )))
    }

    /// Whether the server is a replica. A server that does not say so counts as a primary: a replica refuses
    /// writes by itself.
    async fn is_replica(&self, connection: &MultiplexedConnection) -> StoreResult<bool> {
        let query = redis::cmd("INFO").arg("replication").to_owned();
        match self.answered(connection.clone(), &query).await {
            Ok(info) => Ok(super::reply::text(info)?.contains("role:slave")),
            Err(StoreError::Lost(why)) => Err(StoreError::Unreachable(why)),
            Err(_) => Ok(false),
        }
    }

    /// Connects to one of the hosts, or to the server that it names as the owner of the namespace.
    async fn connect(&self, host: usize) -> StoreResult<(Client, MultiplexedConnection)> {
        let mut client = self.address.client(host)?;
        for _ in 0..REDIRECTS_MAX {
            let connection = connect_to(&client).await?;
            let probe = redis::cmd("EXISTS").arg(&self.probe).to_owned();
            match self.answered(connection.clone(), &probe).await {
                Err(StoreError::Refused(error)) if error.redirect_node().is_some() => {
                    let (place, _) = error.redirect_node().unwrap_or_default();
                    client = self.address.client_at(place)?;
                }
                // A client that has not logged in may send nothing long, and a call would get that error
                // instead.
                Err(StoreError::Refused(error)) if matches!(error.code(), Some("LOADING" | "NOAUTH")) => {
                    return Err(StoreError::Refused(error));
                }
                Err(StoreError::Lost(why)) => return Err(StoreError::Unreachable(why)),
                // The call itself finds any other error.
                _ => return Ok((client, connection)),
            }
        }
        Err(StoreError::Unreachable(format!(
            "the servers at {} redirected {REDIRECTS_MAX} times and none has the namespace; check the cluster's slots",
            self.address.place()
        )))
    }
}

/// The host and port that a client connects to.
pub(super) fn place_of(client: &Client) -> String {
    client.get_connection_info().addr().to_string()
}

async fn connect_to(client: &Client) -> StoreResult<MultiplexedConnection> {
    let place = place_of(client);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_MAX);
    let connected =
        tokio::time::timeout(CONNECT_WITHIN, client.get_multiplexed_async_connection_with_config(&config))
            .await;
    match connected {
        Ok(connected) => connected.map_err(|error| StoreError::connecting(error, &place)),
        Err(_) => Err(StoreError::Unreachable(format!(
            "the server at {place} accepts connections but does not answer"
        ))),
    }
}
