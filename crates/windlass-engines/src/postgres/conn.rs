//! Connections. All of them live on the engine's own thread ([`crate::io_thread`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage};
use windlass_core::error::EngineError;

use super::address::Address;
use super::open;
use super::sql::Statement;
use super::store_error::{StoreError, StoreResult};
use super::value::Param;

/// How long a call waits for a free connection, and for a new one to be opened.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Connections to one server, all with the same settings.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    pool: Pool,
    /// The address that they lead to, for people to read.
    place: Arc<str>,
    /// Whether a transaction pooler may be in between: then no statement is kept prepared.
    pooled: bool,
    /// How long a statement may take.
    answer_within: Duration,
}

impl Connections {
    pub(super) fn new(
        address: &Address,
        size: usize,
        pooled: bool,
        answer_within: Duration,
    ) -> Result<Self, EngineError> {
        let place = address.place().into();
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config().clone(), address.connector()?, recycling);
        let pool = Pool::builder(manager)
            .max_size(size)
            // Last in, first out: the server process of the connection that was used last has its caches
            // warm, and the others sleep. In turn, each would be met cold, which made an idle worker's claim
            // take three times as long.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(CONNECT_WITHIN))
            .create_timeout(Some(CONNECT_WITHIN))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .build()
            .expect("a pool with timeouts has a runtime");
        Ok(Self { pool, place, pooled, answer_within })
    }

    /// Returns a connection, for statements that each commit by themselves.
    pub(super) async fn get(&self) -> StoreResult<Conn> {
        let object = self.pool.get().await.map_err(|error| StoreError::connecting(error, &self.place))?;
        let (pooled, answer_within) = (self.pooled, self.answer_within);
        let (fell_silent, takes_no_writes) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Conn { object: Some(object), pooled, answer_within, fell_silent, takes_no_writes })
    }

    /// Returns a connection with a transaction begun.
    pub(super) async fn begin(&self) -> StoreResult<Tx> {
        let conn = self.get().await?;
        conn.command(if self.pooled { &open::BEGIN_POOLED } else { "BEGIN" }).await?;
        Ok(Tx { conn: Some(conn) })
    }
}

/// A connection. A connection that left a statement without an answer is closed instead of being reused. So
/// is one whose server became read-only, since another server may take writes.
pub(super) struct Conn {
    /// Taken only when the connection is given up.
    object: Option<Object>,
    pooled: bool,
    answer_within: Duration,
    fell_silent: AtomicBool,
    takes_no_writes: AtomicBool,
}

impl Conn {
    /// Runs a statement and returns its rows.
    pub(super) async fn query(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<Row>> {
        if self.pooled {
            return self.answered(self.query_with_settings(statement, params)).await;
        }
        self.answered(self.send(statement, params)).await
    }

    /// Runs a statement behind a pooler, where settings belong to a transaction. All of it is sent at once,
    /// so that it takes no longer.
    async fn query_with_settings(
        &self,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let client = self.client();
        let (begun, rows, committed) = tokio::join!(
            biased;
            client.batch_execute(&open::BEGIN_POOLED),
            self.send(statement, params),
            client.batch_execute("COMMIT"),
        );
        begun?;
        let rows = rows?;
        committed.map(|()| rows)
    }

    async fn send(
        &self,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let client = self.client();
        if self.pooled {
            return client.query_typed(statement.text(), params).await;
        }
        let types: Vec<_> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let prepared = client.prepare_typed_cached(statement.text(), &types).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        client.query(&prepared, &values).await
    }

    /// Whether a statement may follow another before that one is answered. Behind a pooler each statement
    /// is a transaction of several messages, which must not mix.
    pub(super) fn may_follow(&self) -> bool {
        !self.pooled
    }

    /// Makes sure that the server knows a statement, so that the next call of it is one message.
    pub(super) async fn prepare(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<()> {
        let types: Vec<_> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let prepared = async { self.client().prepare_typed_cached(statement.text(), &types).await.map(drop) };
        self.answered(prepared).await
    }

    /// Runs a statement that writes and commits by itself: a lost answer leaves open whether it happened.
    pub(super) async fn execute(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<Row>> {
        self.query(statement, params).await.map_err(StoreError::of_commit)
    }

    /// Runs statements without parameters that commit, such as a migration, however long they take. If they
    /// fail, nothing stays open.
    pub(super) async fn script(&self, text: &str) -> StoreResult<()> {
        let done = self.client().batch_execute(text).await;
        if done.is_err() {
            let _ = self.command("ROLLBACK").await;
        }
        done.map_err(|error| self.note_error(error).of_commit())
    }

    /// Returns the one value of a statement without parameters, as text.
    pub(super) async fn query_one(&self, text: &str) -> StoreResult<Option<String>> {
        let answers = self.answered(self.client().simple_query(text)).await?;
        Ok(answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    async fn command(&self, text: &str) -> StoreResult<()> {
        self.answered(self.client().batch_execute(text)).await
    }

    /// Waits for an answer, within a time limit. The server ends statements that take too long. A pooler
    /// that hangs, or a machine that went away behind one, does not answer at all, and the operating system
    /// takes that connection for a good one for ever.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> StoreResult<T> {
        if let Ok(answer) = tokio::time::timeout(self.answer_within, answer).await {
            return answer.map_err(|error| self.note_error(error));
        }
        self.fell_silent.store(true, Ordering::SeqCst);
        Err(StoreError::Lost(format!("no answer within {:?}", self.answer_within)))
    }

    /// Notes an error that says that the server is read-only. After a failover the old server may still be
    /// there and read, and a process that stays connected to it would never write again. Guarded by
    /// `when_a_server_takes_no_writes_any_more_the_next_call_finds_the_one_that_does`.
    fn note_error(&self, error: tokio_postgres::Error) -> StoreError {
        if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
            self.takes_no_writes.store(true, Ordering::SeqCst);
        }
        error.into()
    }

    async fn roll_back(self) {
        if self.command("ROLLBACK").await.is_err() {
            self.discard();
        }
    }

    fn client(&self) -> &Object {
        self.object.as_ref().expect("the connection is taken only at the end")
    }

    /// Closes the connection: its state is unknown, so no other call gets it.
    fn discard(mut self) {
        self.object.take().map(Object::take);
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if !self.fell_silent.load(Ordering::SeqCst) && !self.takes_no_writes.load(Ordering::SeqCst) {
            return;
        }
        if let Some(object) = self.object.take() {
            // The cause affects the other connections of the pool, too: they lead to the same server.
            if let Some(pool) = Object::pool(&object) {
                pool.retain(|_, _| false);
            }
            drop(Object::take(object));
        }
    }
}

/// A connection with an open transaction. If it is dropped before its end, the connection is closed, and
/// the server rolls the transaction back.
pub(super) struct Tx {
    conn: Option<Conn>,
}

impl Tx {
    /// Runs a statement and returns its rows.
    pub(super) async fn query(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<Row>> {
        let conn = self.conn.as_ref().expect("the connection is taken only at the end");
        conn.answered(conn.send(statement, params)).await
    }

    /// Sets a savepoint.
    pub(super) async fn savepoint(&self) -> StoreResult<()> {
        self.conn.as_ref().expect("the connection is taken only at the end").command("SAVEPOINT before").await
    }

    /// Rolls back to the savepoint.
    pub(super) async fn rollback_to_savepoint(&self) -> StoreResult<()> {
        self.conn
            .as_ref()
            .expect("the connection is taken only at the end")
            .command("ROLLBACK TO SAVEPOINT before")
            .await
    }

    /// Rolls the transaction back.
    pub(super) async fn rollback(mut self) {
        let conn = self.conn.take().expect("there is one end");
        conn.roll_back().await;
    }

    /// Commits a successful transaction, and rolls a failed one back.
    pub(super) async fn end<T>(mut self, result: StoreResult<T>) -> StoreResult<T> {
        let conn = self.conn.take().expect("there is one end");
        match (result, conn.fell_silent.load(Ordering::SeqCst)) {
            // No need to reach a server that does not answer: it rolls back once the connection is closed.
            (Err(fault), true) => Err(fault),
            (Err(fault), false) => {
                conn.roll_back().await;
                Err(fault)
            }
            (Ok(result), _) => match conn.command("COMMIT").await {
                Ok(()) => Ok(result),
                Err(fault) => {
                    conn.discard();
                    Err(fault.of_commit())
                }
            },
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.discard();
        }
    }
}
