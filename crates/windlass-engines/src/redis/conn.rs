//! Connections. Calls share one, which sends what they want one behind the other and gives each its answer; heartbeats have
//! one of their own. One that breaks, falls silent or leads to a server that takes no writes is made anew by the next call.
//!
//! A namespace lies in one slot, so in a cluster, too, one server has all of it: whoever is asked first says which.

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
/// For how long, about, a server that could not be reached or let nobody in is not asked again. Calls that come meanwhile are told so.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How often a cluster may send us elsewhere before we believe that it does not know itself.
const REDIRECTS_MAX: usize = 5;
/// So many calls a connection takes over at once. Those beyond wait, and not always in the order in which they came.
pub(super) const TAKEN_OVER_MAX: usize = 50;

/// The way to a server.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    /// A key in the slot of the namespace, to ask for.
    probe: String,
    answer_within: Duration,
    /// How many connections were made so far.
    made: AtomicU64,
    /// The server that the last of them led to.
    place: watch::Sender<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Wire>,
    /// Where the last connection led, if not to the first address.
    host: usize,
    failed: Option<(Instant, StoreError)>,
}

impl State {
    /// Why there was no connection a moment ago.
    fn failed_lately(&self) -> Option<StoreError> {
        let (at, fault) = self.failed.as_ref()?;
        let is_lately = at.elapsed() < ASK_AGAIN_AFTER.mul_f64(0.5 + fastrand::f64());
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

    /// The server that connections lead to, for those who want to know when it is another one.
    pub(super) fn place(&self) -> watch::Receiver<String> {
        self.place.subscribe()
    }

    /// How many connections were made so far. Another one may lead to another server.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Sends a command and waits for its answer. Before it has to wait it is handed over, if there is a connection that takes it:
    /// whatever is sent on this way from then on comes behind it.
    pub(super) async fn ask(&self, command: &Cmd) -> StoreResult<Value> {
        let wire = self.wire().await?;
        let answer = self.answered(wire.connection.clone(), command).await;
        if let Err(fault) = &answer
            && fault.asks_for_another_connection()
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

    /// Forgets a connection, unless somebody has made another one meanwhile.
    async fn drop_wire(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.current.as_ref().is_some_and(|wire| wire.number == number) {
            state.current = None;
            state.host += 1;
        }
    }

    /// The server that has the namespace and takes writes, beginning with one of the hosts. If several are named some may be
    /// replicas, which answer questions from what they knew a while ago: they are passed over.
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
            "none of the servers at {} takes writes; the last that was asked, {passed_over}, is a replica",
            self.address.place()
        )))
    }

    /// One that does not tell what it is gets the benefit of the doubt: it refuses writes by itself.
    async fn is_replica(&self, connection: &MultiplexedConnection) -> StoreResult<bool> {
        let ask = redis::cmd("INFO").arg("replication").to_owned();
        match self.answered(connection.clone(), &ask).await {
            Ok(info) => Ok(super::reply::text(info)?.contains("role:slave")),
            Err(StoreError::Lost(why)) => Err(StoreError::Unreachable(why)),
            Err(_) => Ok(false),
        }
    }

    /// Connects to one of the hosts, or to where it says that the namespace is.
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
                // Who has not logged in may send nothing long, and would be told that instead.
                Err(StoreError::Refused(error)) if matches!(error.code(), Some("LOADING" | "NOAUTH")) => {
                    return Err(StoreError::Refused(error));
                }
                Err(StoreError::Lost(why)) => return Err(StoreError::Unreachable(why)),
                // Whatever else is wrong, the call itself finds out.
                _ => return Ok((client, connection)),
            }
        }
        Err(StoreError::Unreachable(format!(
            "the servers at {} send us from one to the other",
            self.address.place()
        )))
    }
}

/// The server that a client connects to.
pub(super) fn place_of(client: &Client) -> String {
    client.get_connection_info().addr().to_string()
}

async fn connect_to(client: &Client) -> StoreResult<MultiplexedConnection> {
    let place = place_of(client);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(TAKEN_OVER_MAX);
    let connected =
        tokio::time::timeout(CONNECT_WITHIN, client.get_multiplexed_async_connection_with_config(&config))
            .await;
    match connected {
        Ok(connected) => connected.map_err(|error| StoreError::connecting(error, &place)),
        Err(_) => Err(StoreError::Unreachable(format!(
            "the server at {place} takes a connection and does not answer"
        ))),
    }
}
