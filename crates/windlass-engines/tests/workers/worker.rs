//! A worker that claims, runs, settles, and records each step before it does it or after it has learnt of
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_conformance::history::{Event, Outcome, Uid};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, Suspects};
use windlass_core::engine::Engine;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId};

use super::shared_ledger::SharedLedger;
use super::surely::{AGAIN, after, claim_surely, settle_surely};
use super::words::{bits, card, claim_request};

/// How long it works on a job that was taken back from another worker, which may come back in the middle.
const SUSPECT_LASTS: Duration = Duration::from_millis(200);

pub(crate) struct Worker {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) shared_ledger: Arc<SharedLedger>,
    pub(crate) lease: Duration,
    /// How long it works on the jobs of one claim.
    pub(crate) lasts: Duration,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Worker {
    /// Works until it is stopped. If it learns that it is dead, it continues under another identity.
    pub(crate) async fn run(self) {
        while !self.stop.load(Ordering::SeqCst) {
            let Some(me) = self.register().await else { continue };
            let heart = tokio::spawn(beat(Arc::clone(&self.engine), me, self.lease));
            self.live(me).await;
            heart.abort();
        }
    }

    async fn register(&self) -> Option<WorkerId> {
        let me = WorkerId::from_random(bits());
        let card = WorkerCard { lease: self.lease, pid: std::process::id(), ..card(me) };
        let registered = self.engine.register(card).await;
        if let Err(error) = &registered {
            after(error).await;
        }
        registered.ok().map(|()| me)
    }

    /// Works until it learns that it is dead, or is stopped.
    async fn live(&self, me: WorkerId) {
        let mut suspect_due = false;
        while !self.stop.load(Ordering::SeqCst) {
            let (suspects, lasts) = match suspect_due {
                true => (Suspects::One { crashes_max: CRASHES_MAX }, SUSPECT_LASTS),
                false => (Suspects::LeaveOut, self.lasts),
            };
            let request = ClaimRequest { suspects, ..claim_request(me, 5) };
            match claim_surely(&*self.engine, request).await {
                Ok(ClaimAnswer::WorkerDead) => return,
                Ok(ClaimAnswer::Claimed { jobs, peek }) => {
                    let idle = jobs.is_empty() && !peek.more_due;
                    suspect_due = peek.suspect_due && !suspect_due;
                    self.run_all(me, jobs, lasts).await;
                    if idle && !suspect_due {
                        // may sleep: this worker polls.
                        tokio::time::sleep(AGAIN).await;
                    }
                }
                Err(error) => after(&error).await,
            }
        }
    }

    async fn run_all(&self, me: WorkerId, jobs: Vec<Claimed>, lasts: Duration) {
        if jobs.is_empty() {
            return;
        }
        let uids: Vec<Uid> = jobs.iter().map(|claimed| claimed.job.payload.decode().unwrap()).collect();
        for (claimed, uid) in jobs.iter().zip(&uids) {
            self.shared_ledger.note(Event::start(uid.clone(), claimed.token, me));
        }
        // may sleep: this is the work.
        tokio::time::sleep(lasts).await;
        let batch: Vec<_> =
            jobs.into_iter().zip(&uids).map(|(claimed, uid)| self.end(claimed, uid)).collect();
        let tokens: Vec<_> = batch.iter().map(|settlement| settlement.fence.token).collect();
        let answers = settle_surely(&*self.engine, batch).await;
        for ((uid, token), answer) in uids.into_iter().zip(tokens).zip(answers) {
            self.shared_ledger.note(match answer {
                Settled::Applied => Event::applied(uid, token),
                Settled::ClaimLost => Event::lost(uid, token),
            });
        }
    }

    /// Creates the end of an attempt: one in ten fails and is retried.
    fn end(&self, claimed: Claimed, uid: &Uid) -> Settlement {
        let (outcome, transition) = if fastrand::u8(..10) == 0 && claimed.job.counters.failures < 3 {
            let error = JobError::new(ErrorKind::Failed, "oops");
            (Outcome::Failed, Transition::Retry { after: Duration::from_millis(5), error })
        } else {
            (Outcome::Done, Transition::Succeed { result: None })
        };
        self.shared_ledger.note(Event::end(uid.clone(), claimed.token, outcome));
        claimed.settled(transition, AttemptReport::default())
    }
}

async fn beat(engine: Arc<dyn Engine>, worker: WorkerId, lease: Duration) {
    loop {
        // may sleep: this is the interval of heartbeats.
        tokio::time::sleep(lease / 5).await;
        if let Ok(Liveness::Dead) = engine.extend(Heartbeat { worker, lease, idle: false }).await {
            return;
        }
    }
}
