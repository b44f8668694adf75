//! The way back: what nobody has claimed yet goes to the primary, exactly once and in the order in which it came.
//!
//! A batch is set aside in the spill, put into the primary under the request that its gate names, and ended in the spill.
//! Whoever finds a batch that was set aside and not ended does the last two steps again: the primary answers a request
//! that it has done from its receipt.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueRequest, Enqueued, RequestId};
use windlass_core::fallback::Side;
use windlass_core::gate::Gate;
use windlass_core::job::{Job, JobId, JobState};
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::spill::{Aside, as_new, is_receipt_kept, moved};

use super::Inner;

/// Jobs that go together.
const BATCH: u32 = 200;
/// Gates read at a time.
const GATES: u32 = 100;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// So many are in the primary now and ended in the spill.
    Home(u64),
    /// The primary took none of them. They wait in the spill as before.
    Refused,
    /// Nobody can tell any more whether the primary has them. So many wait for a person.
    Uncertain(u64),
}

impl Inner {
    /// Brings home whatever may go, batch by batch, for as long as the primary is there. Half of the time is left to those
    /// who put jobs in now.
    pub(super) async fn bring_home(&self) -> Result<()> {
        self.finish_all().await?;
        while self.side() == Side::Primary {
            let began = Instant::now();
            let request = RequestId::from_random(fastrand::u128(..));
            let gate = Aside::Moving(request).gate(self.spill.now().await?);
            if self.spill.set_aside(&gate, BATCH).await? == 0 {
                break;
            }
            if self.finish(&gate).await? == Batch::Refused {
                break;
            }
            tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        }
        Ok(())
    }

    /// Finishes what was set aside before: by this process, by one that died, or by another that is doing it now.
    async fn finish_all(&self) -> Result<()> {
        let (mut after, mut uncertain) = (None, 0);
        loop {
            let gates = self.spill.gates(after.as_ref(), GATES).await?;
            for gate in &gates {
                if let Batch::Uncertain(jobs) = self.finish(gate).await? {
                    uncertain += jobs;
                }
            }
            after = gates.last().cloned();
            if gates.len() < GATES as usize {
                break;
            }
        }
        if self.counts.uncertain.swap(uncertain, Ordering::Relaxed) < uncertain {
            tracing::error!(
                jobs = uncertain,
                primary = self.primary.name,
                "whether the primary has these jobs of the spill can no longer be known; `windlass job retry` runs them from \
                 there, `windlass job cancel` ends them"
            );
        }
        Ok(())
    }

    async fn finish(&self, gate: &Gate) -> Result<Batch> {
        let Some((aside, since)) = Aside::of(gate) else { return Ok(Batch::Home(0)) };
        let jobs = self.aside(gate).await?;
        if jobs.is_empty() {
            return Ok(Batch::Home(0));
        }
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        let answers = if is_receipt_kept(since, self.spill.now().await?) {
            let jobs = jobs.into_iter().map(as_new).collect();
            let request = EnqueueRequest { request: aside.request(), jobs };
            Some(self.on_primary(|primary| async move { primary.enqueue(request).await }).await?)
        } else {
            let request = aside.request();
            self.on_primary(|primary| async move { primary.receipt(request).await }).await?
        };
        let here = match aside {
            Aside::Unanswered(request) => self.spill.receipt(request).await?,
            Aside::Moving(_) => None,
        };
        match answers.and_then(|answers| answers_for(&ids, answers, here.as_deref())) {
            Some(answers) => self.settle_aside(gate, &ids, &answers).await,
            None => Ok(Batch::Uncertain(ids.len() as u64)),
        }
    }

    /// The jobs behind a gate in the order in which they came.
    async fn aside(&self, gate: &Gate) -> Result<Vec<Job>> {
        let mut ids = self.spill.behind(gate, ENQUEUE_BATCH_MAX as u32).await?;
        ids.sort_unstable();
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            let record = self.spill.job(id).await?;
            jobs.extend(record.filter(|record| is_behind(&record.state, gate)).map(|record| record.job));
        }
        Ok(jobs)
    }

    /// The primary has answered for a batch: what it has ends here, what it refused waits here as before.
    async fn settle_aside(&self, gate: &Gate, ids: &[JobId], answers: &[Enqueued]) -> Result<Batch> {
        let taken = ids.iter().zip(answers).filter_map(|(id, answer)| Some((*id, answer.job().ok()?)));
        let taken: Vec<_> = taken.collect();
        let reasons = ids.iter().zip(answers).filter_map(|(id, answer)| Some((*id, self.reason(answer)?)));
        let gone = self.spill.end_behind(gate, reasons.collect()).await?;
        for (_, there) in taken.iter().filter(|(here, _)| gone.contains(here)) {
            self.cancel_there(*there).await?;
        }
        for why in answers.iter().filter_map(|answer| answer.job().err()) {
            tracing::warn!(%why, primary = self.primary.name, "a job of the spill was refused, and waits there");
        }
        if taken.len() < ids.len() {
            self.spill.open_gate(gate, BATCH.max(ENQUEUE_BATCH_MAX as u32)).await?;
        }
        self.counts.returned.fetch_add(taken.len() as u64, Ordering::Relaxed);
        Ok(if taken.is_empty() && !ids.is_empty() { Batch::Refused } else { Batch::Home(taken.len() as u64) })
    }

    /// Why a job of the spill is over, or nothing if it is not.
    fn reason(&self, answer: &Enqueued) -> Option<String> {
        let name = self.primary.name;
        match answer {
            Enqueued::New(id) | Enqueued::Spilled(id) => Some(moved(name, *id)),
            Enqueued::Kept(id) => Some(format!("duplicate of job {id} in {name}")),
            Enqueued::Replaced(id) | Enqueued::Revived(id) => Some(format!("given to job {id} in {name}")),
            Enqueued::Refused(_) => None,
        }
    }

    /// It was cancelled or expired in the spill while it was on its way.
    async fn cancel_there(&self, id: JobId) -> Result<()> {
        let why = "cancelled while it was on its way from the spill";
        self.on_primary(|primary| async move { primary.cancel(id, why).await }).await.map(drop)
    }
}

fn is_behind(state: &JobState, gate: &Gate) -> bool {
    matches!(state, JobState::Waiting { gate: Some(at) } if at == gate)
}

/// The primary's answers for these jobs. It may have answered for more: of a request whose answer got lost, some may have been
/// refused by the spill or cancelled there, and the spill's own receipt says which place each had.
fn answers_for(ids: &[JobId], answers: Vec<Enqueued>, places: Option<&[Enqueued]>) -> Option<Vec<Enqueued>> {
    if answers.len() == ids.len() {
        return Some(answers);
    }
    let places = places.filter(|places| places.len() == answers.len())?;
    let place_of = |id: &JobId| places.iter().position(|here| *here == Enqueued::New(*id));
    ids.iter().map(|id| place_of(id).map(|place| answers[place].clone())).collect()
}
