//! Connections. Calls share one, which sends what they want one behind the other and gives each its answer; heartbeats have
//! one of their own. One that breaks, falls silent or leads to a server that takes no writes is made anew by the next call.
//!
//! A namespace lies in one slot, so in a cluster, too, one server has all of it: whoever is asked first says which.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Value};
use tokio::sync::Mutex;

use super::address::Address;
use super::fault::{Fault, Step};

/// How long a new connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// For how long, about, a server that could not be reached is not asked again. Calls that come meanwhile are told so.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How often a cluster may send us elsewhere before we believe that it does not know itself.
const REDIRECTS_MAX: usize = 5;

/// The way to a server.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    /// A key in the slot of the namespace, to ask for.
    probe: String,
    answer_within: Duration,
    /// How many connections were made so far.
    made: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Wire>,
    /// Where the last connection led, if not to the first address.
    host: usize,
    failed: Option<(Instant, String)>,
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
        Self { address, probe, answer_within, made: AtomicU64::new(0), state: Mutex::default() }
    }

    /// How many connections were made so far. Another one may lead to another server.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask(&self, command: &Cmd) -> Step<Value> {
        let wire = self.wire().await?;
        let answer = self.answered(wire.connection.clone(), command).await;
        if let Err(fault) = &answer
            && fault.asks_for_another_connection()
        {
            self.drop_wire(wire.number).await;
        }
        answer
    }

    async fn answered(&self, mut connection: MultiplexedConnection, command: &Cmd) -> Step<Value> {
        let answer = tokio::time::timeout(self.answer_within, connection.send_packed_command(command)).await;
        let answer = answer.map_err(|_| Fault::Lost(format!("no answer within {:?}", self.answer_within)))?;
        answer.and_then(Value::extract_error).map_err(Fault::of_call)
    }

    async fn wire(&self) -> Step<Wire> {
        let mut state = self.state.lock().await;
        if let Some(wire) = &state.current {
            return Ok(wire.clone());
        }
        if let Some((at, why)) = &state.failed
            && at.elapsed() < ASK_AGAIN_AFTER.mul_f64(0.5 + fastrand::f64())
        {
            return Err(Fault::Unreachable(why.clone()));
        }
        match self.connect(state.host).await {
            Ok(connection) => {
                let wire = Wire { connection, number: self.made.fetch_add(1, Ordering::SeqCst) + 1 };
                state.failed = None;
                Ok(state.current.insert(wire).clone())
            }
            Err(fault) => {
                state.host += 1;
                if let Fault::Unreachable(why) = &fault {
                    state.failed = Some((Instant::now(), why.clone()));
                }
                Err(fault)
            }
        }
    }

    /// Forgets a connection, unless somebody has made another one meanwhile.
    async fn drop_wire(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.current.as_ref().is_some_and(|wire| wire.number == number) {
            state.current = None;
            state.host += 1;
        }
    }

    /// Connects to one of the hosts, or to where it says that the namespace is.
    async fn connect(&self, host: usize) -> Step<MultiplexedConnection> {
        let mut client = self.address.client(host)?;
        for _ in 0..REDIRECTS_MAX {
            let connection = connect_to(&client).await?;
            let probe = redis::cmd("EXISTS").arg(&self.probe).to_owned();
            match self.answered(connection.clone(), &probe).await {
                Err(Fault::Refused(error)) if error.redirect_node().is_some() => {
                    let (place, _) = error.redirect_node().unwrap_or_default();
                    client = self.address.client_at(place)?;
                }
                Err(Fault::Refused(error)) if error.code() == Some("LOADING") => {
                    return Err(Fault::Refused(error));
                }
                Err(Fault::Lost(why)) => return Err(Fault::Unreachable(why)),
                // Whatever else is wrong, the call itself finds out.
                _ => return Ok(connection),
            }
        }
        Err(Fault::Unreachable(format!(
            "the servers at {} send us from one to the other",
            self.address.place()
        )))
    }
}

async fn connect_to(client: &Client) -> Step<MultiplexedConnection> {
    let place = client.get_connection_info().addr().to_string();
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_WITHIN)).set_response_timeout(None);
    let connected =
        tokio::time::timeout(CONNECT_WITHIN, client.get_multiplexed_async_connection_with_config(&config))
            .await;
    match connected {
        Ok(connected) => connected.map_err(|error| Fault::connecting(error, &place)),
        Err(_) => {
            Err(Fault::Unreachable(format!("the server at {place} takes a connection and does not answer")))
        }
    }
}
