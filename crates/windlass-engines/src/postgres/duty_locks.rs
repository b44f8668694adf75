//! Locks of duties, held by the listener's session. It is the only session that is this engine's own, and
//! so the only one that works behind a pooler. The locks end with it.
//!
//! A holder asks for its locks again and again, which shows that the session lives. A lock that no worker
//! asks for any more is released. The server does not know which worker has a lock. So this is recorded in
//! a table, for operators, and a record counts only while its session has the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use windlass_core::clock::Clock;
use windlass_core::error::EngineError;
use windlass_core::lease::{LockHolder, LockRecord, LockRequest};
use windlass_core::limits::{DUTIES_MAX, LEASE_KEPT};
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use super::Store;
use super::sql::Statement;
use super::store_error::StoreResult;
use super::value::{Bits, Instant as StoreTime, instant, int4, micros, number, small_number, texts, uuid};

/// How many requests may wait for the listener.
pub(super) const LOCK_REQUESTS_MAX: usize = 64;

/// A request to the listener.
#[derive(Debug)]
pub(super) enum LockCall {
    /// Take or keep locks.
    Lock(LockRequest, oneshot::Sender<Vec<bool>>),
    /// Release locks.
    Unlock(WorkerId, Vec<DutyName>, oneshot::Sender<Vec<bool>>),
}

/// The channel to the listener.
pub(super) type LockCalls = mpsc::Sender<LockCall>;

impl Store {
    pub(super) async fn lock_duties(&self, request: LockRequest) -> StoreResult<Vec<bool>> {
        self.call_listener(|answer| LockCall::Lock(request, answer)).await
    }

    pub(super) async fn unlock_duties(&self, worker: WorkerId, duties: Vec<DutyName>) -> StoreResult<()> {
        self.call_listener(|answer| LockCall::Unlock(worker, duties, answer)).await.map(drop)
    }

    /// Returns which session and worker has which lock, by the server's list of locks.
    pub(super) async fn duty_locks(&self) -> StoreResult<Vec<LockRecord>> {
        let most = int4(DUTIES_MAX);
        let rows = self.work.get().await?.query(&self.sql.duty_locks, &[small_number(&most)]).await?;
        rows.iter().filter_map(|row| read_lock(row).transpose()).collect()
    }

    async fn call_listener(
        &self,
        call: impl FnOnce(oneshot::Sender<Vec<bool>>) -> LockCall,
    ) -> StoreResult<Vec<bool>> {
        let Some(calls) = &self.lock_calls else {
            let why = "advisory locks of duties need a direct connection to listen on; set `listen_url`, or do the duty under a lease";
            return Err(EngineError::Unusable { why: why.to_owned() }.into());
        };
        let (answer, answered) = oneshot::channel();
        let away = || EngineError::Unavailable { why: "the listener has no connection".to_owned() };
        calls.try_send(call(answer)).map_err(|_| away())?;
        Ok(answered.await.map_err(|_| away())?)
    }
}

/// Reads a lock, if the row has one with a valid name.
fn read_lock(row: &Row) -> StoreResult<Option<LockRecord>> {
    let Ok(duty) = DutyName::parse(row.try_get(0)?) else { return Ok(None) };
    let worker = row.try_get::<_, Option<Bits>>(2)?.map(Into::into);
    let since = row.try_get::<_, Option<StoreTime>>(3)?.map(|since| since.0);
    let holder = row
        .try_get::<_, Option<i32>>(1)?
        .map(|session| LockHolder { session: session.into(), noted: worker.zip(since) });
    Ok(Some(LockRecord { duty, holder }))
}

/// The locks that one session has: duty, worker, and until when each is valid. They are gone with the
/// session.
#[derive(Debug)]
pub(super) struct Held {
    lock: Statement,
    unlock: Statement,
    note: Statement,
    clock: Option<Arc<dyn Clock>>,
    /// Whether the warning that records cannot be written was logged.
    has_warned: bool,
    locks: BTreeMap<DutyName, (WorkerId, Instant)>,
}

impl Held {
    pub(super) fn by_new_session(store: &Store) -> Self {
        Self {
            lock: store.sql.lock_duties.clone(),
            unlock: store.sql.unlock_duties.clone(),
            note: store.sql.note_locks.clone(),
            clock: store.clock.clone(),
            has_warned: false,
            locks: BTreeMap::new(),
        }
    }

    /// When the next lock lapses.
    pub(super) fn next_lapse(&self) -> Option<Instant> {
        self.locks.values().map(|(_, good_until)| *good_until).min()
    }

    /// Serves a request. A caller that waits no longer gets no lock.
    pub(super) async fn serve(
        &mut self,
        call: LockCall,
        client: &Client,
    ) -> Result<(), tokio_postgres::Error> {
        match call {
            LockCall::Lock(request, answer) if !answer.is_closed() => {
                let answers = self.take(&request, client).await?;
                // Only a session that answers holds locks.
                client.simple_query("").await?;
                let _ = answer.send(answers);
            }
            LockCall::Lock(..) => {}
            LockCall::Unlock(worker, duties, answer) => {
                let is_its =
                    |duty: &DutyName| self.locks.get(duty).is_some_and(|(owner, _)| *owner == worker);
                let held: Vec<_> = duties.into_iter().filter(is_its).collect();
                self.give_back(&held, client).await?;
                let _ = answer.send(Vec::new());
            }
        }
        Ok(())
    }

    /// Takes the locks that the session does not have yet. A session can take a lock twice, and would then
    /// have to release it twice. One statement takes them all, since a call has little time however many
    /// there are.
    async fn take(
        &mut self,
        request: &LockRequest,
        client: &Client,
    ) -> Result<Vec<bool>, tokio_postgres::Error> {
        let good_until = Instant::now() + request.good_for;
        let wanted = request.duties.iter().filter(|duty| !self.locks.contains_key(*duty));
        let wanted: Vec<_> = wanted.cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let taken = self.run_on(&self.lock, &wanted, client).await?;
        if !taken.is_empty() {
            self.note(&taken, request.worker, client).await?;
        }
        for duty in taken {
            self.locks.insert(duty, (request.worker, good_until));
        }
        let has = |duty: &DutyName| match self.locks.get_mut(duty) {
            Some((owner, until)) if *owner == request.worker => {
                *until = good_until;
                true
            }
            _ => false,
        };
        Ok(request.duties.iter().map(has).collect())
    }

    /// Records which worker these locks belong to. The role that listens may be another than the one that
    /// works, without a right to any table. Then the duty is done all the same, and operators see the
    /// session and not the worker.
    async fn note(
        &mut self,
        duties: &[DutyName],
        worker: WorkerId,
        client: &Client,
    ) -> Result<(), tokio_postgres::Error> {
        let now = self.clock.as_ref().map(|clock| StoreTime(clock.now()));
        let names: Vec<_> = duties.iter().map(DutyName::as_str).collect();
        let (worker, kept) = (Bits::from(worker), micros(LEASE_KEPT));
        let params = [instant(&now), texts(&names), uuid(&worker), number(&kept)];
        match client.query_typed(self.note.text(), &params).await {
            Err(error) if error.as_db_error().is_some() => {
                if !self.has_warned {
                    tracing::warn!(%error, "recording the workers of duty locks failed; `windlass lease list` shows sessions in place of workers");
                }
                self.has_warned = true;
                Ok(())
            }
            noted => noted.map(drop),
        }
    }

    /// Releases the locks that no worker asked for in time.
    pub(super) async fn let_lapse(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let now = Instant::now();
        let lapsed: Vec<_> =
            self.locks.iter().filter(|(_, (_, until))| *until <= now).map(|(duty, _)| duty.clone()).collect();
        self.give_back(&lapsed, client).await
    }

    async fn give_back(&mut self, duties: &[DutyName], client: &Client) -> Result<(), tokio_postgres::Error> {
        self.run_on(&self.unlock, duties, client).await?;
        for duty in duties {
            self.locks.remove(duty);
        }
        Ok(())
    }

    /// Runs a statement on the locks of duties. Returns the duties for which the server reports success.
    async fn run_on(
        &self,
        statement: &Statement,
        duties: &[DutyName],
        client: &Client,
    ) -> Result<Vec<DutyName>, tokio_postgres::Error> {
        if duties.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<_> = duties.iter().map(DutyName::as_str).collect();
        let rows = client.query_typed(statement.text(), &[(&names, Type::TEXT_ARRAY)]).await?;
        let mut done = Vec::new();
        for (duty, row) in duties.iter().zip(&rows) {
            if row.try_get(0)? {
                done.push(duty.clone());
            }
        }
        Ok(done)
    }
}
