//! Decides where a new job goes: to the primary, or into the spool while the primary is away.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;
use windlass_core::limits::RECEIPT_TTL;

use super::{Inner, KeysWhileAway};

/// The time limit for calls that an open transaction can hold up: jobs with keys, and a query about a
/// request.
const KEYED_WITHIN: Duration = Duration::from_secs(8);
/// The maximum number of requests without an answer that are remembered.
const UNANSWERED_MAX: usize = 50_000;

/// Requests that were sent to the primary and got no answer, and when. The primary may have done them, so
/// no worker may run a repeat of one from the spool.
#[derive(Debug, Default)]
pub(super) struct Unanswered(HashMap<RequestId, Instant>);

impl Unanswered {
    /// Remembers a request that is about to be sent, or refuses it if it cannot be remembered. Returns
    /// whether this is the first time.
    fn sending(&mut self, request: RequestId) -> Result<bool> {
        if self.sent_ago(request).is_some() {
            return Ok(false);
        }
        if self.0.len() >= UNANSWERED_MAX {
            self.0.retain(|_, sent| sent.elapsed() < RECEIPT_TTL);
        }
        if self.0.len() >= UNANSWERED_MAX {
            let why = format!("{UNANSWERED_MAX} requests have no answer yet, which is the limit");
            return Err(EngineError::Unavailable { why });
        }
        self.0.insert(request, Instant::now());
        Ok(true)
    }

    /// Forgets a request that was answered, or that the spool remembers from now on.
    fn answered(&mut self, request: RequestId) {
        self.0.remove(&request);
    }

    /// Returns how long ago a request was first sent.
    fn sent_ago(&self, request: RequestId) -> Option<Duration> {
        self.0.get(&request).map(Instant::elapsed).filter(|ago| *ago < RECEIPT_TTL)
    }
}

impl Inner {
    pub(super) async fn enqueue(&self, request: EnqueueRequest) -> Result<Vec<EnqueueAnswer>> {
        if let Some(answers) = self.spool_receipt(request.request).await? {
            return Ok(answers);
        }
        if self.side() == Side::Spool {
            let why = format!("{} is away", self.primary.name);
            return self.spool_or_stage(request, EngineError::Unavailable { why }, None).await;
        }
        let is_first = self.unanswered().sending(request.request)?;
        let (copy, sent) = (request.clone(), Instant::now());
        // A caller's open transaction may hold a key, which says nothing about the store.
        let is_keyed = request.jobs.iter().any(|job| job.key.is_some());
        let limit = if is_keyed { KEYED_WITHIN } else { self.options.check_timeout };
        let answer =
            self.on_primary_within(limit, |primary| async move { primary.enqueue(copy).await }).await;
        // A repeat that was not done says nothing about the first try.
        if answer.as_ref().map_or_else(|error| is_first && !error.is_unknown(), |_| true) {
            self.unanswered().answered(request.request);
        }
        match answer {
            Err(error) if error.is_unknown() => {
                self.spool_or_stage(request, error, Some(sent.elapsed())).await
            }
            Err(error) if error.is_away() => self.spool_or_stage(request, error, None).await,
            Err(error) if !is_first => {
                let why = format!("an earlier try of the same request got no answer, and this one: {error}");
                Err(EngineError::Unknown { why })
            }
            answered => answered,
        }
    }

    /// Spools or stages a request that the primary did not take, or did not answer when it was first sent.
    async fn spool_or_stage(
        &self,
        request: EnqueueRequest,
        why: EngineError,
        unanswered_for: Option<Duration>,
    ) -> Result<Vec<EnqueueAnswer>> {
        let name = request.request;
        let earlier = self.unanswered().sent_ago(name);
        let Some(sent_ago) = earlier.max(unanswered_for) else {
            self.check_spool(&request)?;
            self.spooling();
            let spooled = self.spool.enqueue(request).await.map_err(|error| self.of_spool(error, &why))?;
            return Ok(self.count_spooled(spooled));
        };
        let answers = self.keep_unanswered(request, sent_ago).await.map_err(|refused| {
            EngineError::Unknown { why: format!("{why}; it could not be staged either: {refused}") }
        })?;
        self.unanswered().answered(name);
        Ok(answers)
    }

    /// Stores jobs that the primary may have or not. No worker runs them here, and when the primary is back
    /// it is queried under the same request. Only the primary knows which job holds a key, so a job with a
    /// key is not staged.
    pub(super) async fn keep_unanswered(
        &self,
        request: EnqueueRequest,
        sent_ago: Duration,
    ) -> Result<Vec<EnqueueAnswer>> {
        if let Some(claim) = request.jobs.iter().find_map(|job| job.key.as_ref()) {
            return Err(EngineError::Refused(format!("it has the key {}", claim.key)));
        }
        self.check_spool(&request)?;
        self.spooling();
        let name = request.request;
        let answers = self.spool.enqueue_staged(request, sent_ago).await?;
        // A request that the spool knew already, or was closed to, stages nothing.
        if answers.iter().any(|answer| matches!(answer, EnqueueAnswer::New(_))) {
            self.left_behind().insert(name);
        }
        Ok(self.count_spooled(answers))
    }

    pub(super) async fn receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        match self.spool_receipt(request).await? {
            Some(answers) => Ok(Some(answers)),
            None => self.on_primary(|primary| async move { primary.receipt(request).await }).await,
        }
    }

    /// Returns the answers of an earlier request from either store. If there are none, both stores are
    /// closed to it: the primary first, so that the spool is closed to no request that the primary may have
    /// or still get.
    pub(super) async fn ask_both(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        if let Some(answers) = self.spool_receipt(request).await? {
            return Ok(Some(answers));
        }
        // As with a key: an open transaction may hold the request, which says nothing about the store.
        let there =
            self.on_primary_within(KEYED_WITHIN, |primary| async move { primary.ask(request).await }).await?;
        if there.is_some() {
            return Ok(there);
        }
        // A call that was still in flight may have put it into the spool meanwhile, and from now on none
        // does.
        let here = self.spool.ask(request).await?;
        Ok(here.map(|answers| answers.into_iter().map(spooled).collect()))
    }

    /// Returns the answers of a request that went into the spool. A spool without receipts is not read, and
    /// a damaged spool stops no caller of a primary that answers.
    async fn spool_receipt(&self, request: RequestId) -> Result<Option<Vec<EnqueueAnswer>>> {
        // An unreadable spool is reported when it becomes unreadable, and not at each request.
        let is_unread = self.spool.trouble().is_some() && self.side() == Side::Primary;
        if is_unread || !self.spool_may_have_receipts() {
            return Ok(None);
        }
        match self.spool.receipt(request).await {
            Ok(answers) => Ok(answers.map(|answers| answers.into_iter().map(spooled).collect())),
            Err(error) if self.side() == Side::Primary => {
                tracing::error!(%error, "the spool cannot be read; a repeat of a spooled request is not recognised");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether this process, or one before it, may have spooled a job within the life of a receipt.
    fn spool_may_have_receipts(&self) -> bool {
        let last = *self.last_spooled.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < RECEIPT_TTL)
    }

    /// Refuses a request that the spool must not take.
    fn check_spool(&self, request: &EnqueueRequest) -> Result<()> {
        let key = request.jobs.iter().find_map(|job| job.key.as_ref());
        if let Some(claim) = key.filter(|_| self.options.keys == KeysWhileAway::Refuse) {
            let (name, key) = (self.primary.name, &claim.key);
            let why = format!(
                "{name} is away, so it is unknown whether key {key} is held; try again later, or accept jobs with keys meanwhile with \
                 `keys = \"accept\"` under [fallback]"
            );
            return Err(EngineError::Unavailable { why });
        }
        if let Some(ordering_key) = request.jobs.iter().find_map(|job| job.ordering_key.as_ref()) {
            let name = self.primary.name;
            let why = format!(
                "{name} is away, so it is unknown which jobs come before this one in the ordering key {ordering_key}; try again later"
            );
            return Err(EngineError::Unavailable { why });
        }
        let size = self.in_spool.load(Ordering::Relaxed);
        if size + request.jobs.len() as u64 > self.options.spool_max {
            let (name, max) = (self.primary.name, self.options.spool_max);
            let why = format!(
                "{name} is away, and the spool takes at most {max} jobs and has {size}; try again later or raise the limit of the spool"
            );
            return Err(EngineError::Full { why });
        }
        Ok(())
    }

    /// Notes the time before a job is spooled, so that a repeat of a call whose end was lost finds the
    /// receipt.
    pub(super) fn spooling(&self) {
        *self.last_spooled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn count_spooled(&self, answers: Vec<EnqueueAnswer>) -> Vec<EnqueueAnswer> {
        let new = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
        self.in_spool.fetch_add(new as u64, Ordering::Relaxed);
        self.counts.spooled.fetch_add(new as u64, Ordering::Relaxed);
        answers.into_iter().map(spooled).collect()
    }
}

/// Reports a new job in the spool as spooled.
fn spooled(answer: EnqueueAnswer) -> EnqueueAnswer {
    match answer {
        EnqueueAnswer::New(id) => EnqueueAnswer::Spooled(id),
        other => other,
    }
}
