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

/// How long a call waits for a free connection, and for a new one to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Connections to one server, all with the same settings.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    pool: Pool,
    /// Where they lead to, for people to read.
    place: Arc<str>,
    /// Whether a transaction pooler may stand in between: then no statement is kept prepared.
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
            // The one that was used last: its process on the server has what it needs at hand, and the others sleep. In turn, each would
            // be met cold, which took an idle worker's claim three times as long.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(CONNECT_WITHIN))
            .create_timeout(Some(CONNECT_WITHIN))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .build()
            .expect("a pool with time-outs has a runtime");
        Ok(Self { pool, place, pooled, answer_within })
    }

    /// A connection, for statements that each commit by themselves.
    pub(super) async fn get(&self) -> StoreResult<Conn> {
        let object = self.pool.get().await.map_err(|error| StoreError::connecting(error, &self.place))?;
        let (pooled, answer_within) = (self.pooled, self.answer_within);
        let (fell_silent, takes_no_writes) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Conn { object: Some(object), pooled, answer_within, fell_silent, takes_no_writes })
    }

    /// A connection with a transaction begun.
    pub(super) async fn begin(&self) -> StoreResult<Tx> {
        let conn = self.get().await?;
        conn.command(if self.pooled { &open::BEGIN_POOLED } else { "BEGIN" }).await?;
        Ok(Tx { conn: Some(conn) })
    }
}

/// A connection. One that left a statement without an answer is closed instead of being given to the next; so is one whose
/// server takes no writes any more, since another server may.
pub(super) struct Conn {
    /// Taken only by its end.
    object: Option<Object>,
    pooled: bool,
    answer_within: Duration,
    fell_silent: AtomicBool,
    takes_no_writes: AtomicBool,
}

impl Conn {
    /// Runs a statement and gives its rows.
    pub(super) async fn query(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<Row>> {
        if self.pooled {
            return self.answered(self.query_with_settings(statement, params)).await;
        }
        self.answered(self.send(statement, params)).await
    }

    /// Behind a pooler settings belong to a transaction. All of it is sent at once, so that it takes no longer.
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

    /// Whether a statement may follow another before that one is answered. Behind a pooler each is a transaction of several
    /// messages, which must not mix.
    pub(super) fn may_follow(&self) -> bool {
        !self.pooled
    }

    /// Makes sure that the server knows a statement, so that the next call of it is one message.
    pub(super) async fn prepare(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<()> {
        let types: Vec<_> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let prepared = async { self.client().prepare_typed_cached(statement.text(), &types).await.map(drop) };
        self.answered(prepared).await
    }

    /// The same for a statement that writes and commits by itself: a lost answer leaves open whether it happened.
    pub(super) async fn execute(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<Row>> {
        self.query(statement, params).await.map_err(StoreError::of_commit)
    }

    /// Runs statements without parameters that commit, such as a migration, however long it takes. One that fails leaves
    /// nothing open.
    pub(super) async fn script(&self, text: &str) -> StoreResult<()> {
        let done = self.client().batch_execute(text).await;
        if done.is_err() {
            let _ = self.command("ROLLBACK").await;
        }
        done.map_err(|error| self.note_error(error).of_commit())
    }

    /// The one value that a statement without parameters gives, as text.
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

    /// The server ends statements that take too long. A pooler that hangs, or a machine that went away behind one, says
    /// nothing at all, and the system calls that connection a good one for ever.
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

    /// After a failover the old server may still be there and read, and whoever stays connected to it would never write
    /// again. Guarded by `when_a_server_takes_no_writes_any_more_the_next_call_finds_the_one_that_does`.
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
        self.object.as_ref().expect("it is taken only by the end")
    }

    /// Closes it: nobody knows what state it is in, so nobody else gets it.
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
            // Whatever keeps this one from answering or writing, keeps its neighbours: they lead to the same place.
            if let Some(pool) = Object::pool(&object) {
                pool.retain(|_, _| false);
            }
            drop(Object::take(object));
        }
    }
}

/// A connection with a transaction under way. One that is dropped before its end takes its connection with it, and
/// the server undoes what it wrote.
pub(super) struct Tx {
    conn: Option<Conn>,
}

impl Tx {
    /// Runs a statement and gives its rows.
    pub(super) async fn query(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<Row>> {
        let conn = self.conn.as_ref().expect("it is taken only by the end");
        conn.answered(conn.send(statement, params)).await
    }

    /// What is written from here on can be undone by itself.
    pub(super) async fn savepoint(&self) -> StoreResult<()> {
        self.conn.as_ref().expect("it is taken only by the end").command("SAVEPOINT before").await
    }

    /// Undoes what was written since the mark.
    pub(super) async fn rollback_to_savepoint(&self) -> StoreResult<()> {
        self.conn.as_ref().expect("it is taken only by the end").command("ROLLBACK TO SAVEPOINT before").await
    }

    /// Undoes it.
    pub(super) async fn undo(mut self) {
        let conn = self.conn.take().expect("there is one end");
        conn.roll_back().await;
    }

    /// Commits what went well, and undoes what did not.
    pub(super) async fn end<T>(mut self, result: StoreResult<T>) -> StoreResult<T> {
        let conn = self.conn.take().expect("there is one end");
        match (result, conn.fell_silent.load(Ordering::SeqCst)) {
            // Who does not answer need not be asked: the server undoes what was begun once the connection is closed.
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
