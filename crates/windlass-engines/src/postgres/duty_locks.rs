//! Locks of duties: held by the listener's session, the only one that is this engine's own, and so the only one that works behind a
//! pooler. They end with it. Whoever has one asks for it again and again, which shows that the session lives; what nobody asks
//! for any more is given back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use windlass_core::error::EngineError;
use windlass_core::lease::LockRequest;
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use super::Store;
use super::fault::Step;
use super::sql::Statement;

/// Requests that wait for the listener.
pub(super) const LOCK_REQUESTS_MAX: usize = 64;

/// What is asked of the listener.
#[derive(Debug)]
pub(super) enum LockCall {
    /// Take or keep locks.
    Lock(LockRequest, oneshot::Sender<Vec<bool>>),
    /// Give locks back.
    Unlock(WorkerId, Vec<DutyName>, oneshot::Sender<Vec<bool>>),
}

/// The way to the listener.
pub(super) type LockCalls = mpsc::Sender<LockCall>;

impl Store {
    pub(super) async fn lock_duties(&self, request: LockRequest) -> Step<Vec<bool>> {
        self.ask_listener(|answer| LockCall::Lock(request, answer)).await
    }

    pub(super) async fn unlock_duties(&self, worker: WorkerId, duties: Vec<DutyName>) -> Step<()> {
        self.ask_listener(|answer| LockCall::Unlock(worker, duties, answer)).await.map(drop)
    }

    async fn ask_listener(
        &self,
        call: impl FnOnce(oneshot::Sender<Vec<bool>>) -> LockCall,
    ) -> Step<Vec<bool>> {
        let Some(calls) = &self.lock_calls else {
            let why = "locks of duties need a direct address to listen at; give `listen_url`, or do the duty under a lease";
            return Err(EngineError::Unusable { why: why.to_owned() }.into());
        };
        let (answer, answered) = oneshot::channel();
        let away = || EngineError::Unavailable { why: "the listener has no connection".to_owned() };
        calls.try_send(call(answer)).map_err(|_| away())?;
        Ok(answered.await.map_err(|_| away())?)
    }
}

/// The locks that one session has: of which duty, whose, and until when they are good. Gone with the session.
#[derive(Debug)]
pub(super) struct Held {
    lock: Statement,
    unlock: Statement,
    locks: BTreeMap<DutyName, (WorkerId, Instant)>,
}

impl Held {
    pub(super) fn by_new_session(store: &Store) -> Self {
        Self {
            lock: store.sql.lock_duty.clone(),
            unlock: store.sql.unlock_duty.clone(),
            locks: BTreeMap::new(),
        }
    }

    /// When the next of them lapses.
    pub(super) fn next_lapse(&self) -> Option<Instant> {
        self.locks.values().map(|(_, good_until)| *good_until).min()
    }

    /// Does what is asked. A caller that waits no longer gets nothing.
    pub(super) async fn serve(
        &mut self,
        call: LockCall,
        client: &Client,
    ) -> Result<(), tokio_postgres::Error> {
        match call {
            LockCall::Lock(request, answer) if !answer.is_closed() => {
                let mut answers = Vec::with_capacity(request.duties.len());
                for duty in &request.duties {
                    answers.push(self.take(duty, request.worker, request.good_for, client).await?);
                }
                // Only a session that answers holds anything.
                client.simple_query("").await?;
                let _ = answer.send(answers);
            }
            LockCall::Lock(..) => {}
            LockCall::Unlock(worker, duties, answer) => {
                for duty in &duties {
                    if self.locks.get(duty).is_some_and(|(owner, _)| *owner == worker) {
                        self.give_back(duty, client).await?;
                    }
                }
                let _ = answer.send(Vec::new());
            }
        }
        Ok(())
    }

    /// A lock that a session has can be taken by it once more, and would then have to be given back twice.
    async fn take(
        &mut self,
        duty: &DutyName,
        worker: WorkerId,
        good_for: Duration,
        client: &Client,
    ) -> Result<bool, tokio_postgres::Error> {
        let good_until = Instant::now() + good_for;
        if let Some((owner, until)) = self.locks.get_mut(duty) {
            let is_ours = *owner == worker;
            *until = if is_ours { good_until } else { *until };
            return Ok(is_ours);
        }
        let is_taken = self.say(&self.lock, duty, client).await?;
        if is_taken {
            self.locks.insert(duty.clone(), (worker, good_until));
        }
        Ok(is_taken)
    }

    /// Gives back what nobody asked for in time.
    pub(super) async fn let_lapse(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let now = Instant::now();
        let lapsed: Vec<_> =
            self.locks.iter().filter(|(_, (_, until))| *until <= now).map(|(duty, _)| duty.clone()).collect();
        for duty in lapsed {
            self.give_back(&duty, client).await?;
        }
        Ok(())
    }

    async fn give_back(&mut self, duty: &DutyName, client: &Client) -> Result<(), tokio_postgres::Error> {
        self.say(&self.unlock, duty, client).await?;
        self.locks.remove(duty);
        Ok(())
    }

    async fn say(
        &self,
        statement: &Statement,
        duty: &DutyName,
        client: &Client,
    ) -> Result<bool, tokio_postgres::Error> {
        let rows = client.query_typed(statement.text(), &[(&duty.as_str(), Type::TEXT)]).await?;
        rows.first().map_or(Ok(false), |row| row.try_get(0))
    }
}
