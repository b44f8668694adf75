//! Calls to platforms outside, with a circuit breaker in front of each.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::breaker::Verdict;
use windlass_core::gate::Gate;
use windlass_core::names::{BreakerName, NameError};

use super::context::Context;
use crate::limits::{Allowed, Platform};

/// A platform outside, for one call. Made by [`Context::breaker`].
#[must_use = "nothing is called until `call` is awaited"]
pub struct PlatformCall<'a> {
    ctx: &'a Context,
    name: Result<BreakerName, NameError>,
}

/// Why a call brought no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError<E> {
    /// The breaker is open: nothing was called. A handler that returns this error has its job put back until the
    /// platform may be called again, which costs no attempt.
    #[error("breaker {0} is open, so nothing was called")]
    Open(BreakerName),
    /// The call failed.
    #[error(transparent)]
    Failed(E),
    /// The name of the platform is no name.
    #[error(transparent)]
    Name(NameError),
}

impl<'a> PlatformCall<'a> {
    pub(super) fn new(ctx: &'a Context, platform: &str) -> Self {
        Self { ctx, name: BreakerName::parse(platform) }
    }

    /// Calls, unless the breaker is open. An error counts as a failure of the platform.
    pub async fn call<T, E>(self, call: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E>> {
        let judge = |answer: &Result<T, E>| match answer {
            Ok(_) => Some(Verdict::Success),
            Err(_) => Some(Verdict::Failure),
        };
        self.call_judged(call, judge).await
    }

    /// Calls, unless the breaker is open, and lets the caller say what the answer means. Nothing means that it says
    /// nothing of the platform, such as a refusal of wrong input. After a rate-limit answer a handler that returns an
    /// error is tried again when the platform said, or else after a pause that doubles each time.
    pub async fn call_judged<T, E>(
        self,
        call: impl Future<Output = Result<T, E>>,
        judge: impl FnOnce(&Result<T, E>) -> Option<Verdict>,
    ) -> Result<T, CallError<E>> {
        let name = self.name.map_err(CallError::Name)?;
        let breakers = &self.ctx.limits().breakers;
        let Some(platform) = breakers.platform(&name) else { return call.await.map_err(CallError::Failed) };
        let Some(allowed) = breakers.ask(&platform, self.ctx.fence()).await else {
            self.ctx.note(|notes| notes.held = Some(Gate::breaker(&name)));
            return Err(CallError::Open(name));
        };
        self.ctx.note(|notes| notes.unanswered.push((Arc::clone(&platform), allowed)));
        let answer = call.await;
        self.ctx.note(|notes| notes.answered(&platform));
        tell(self.ctx, &platform, allowed, judge(&answer)).await;
        answer.map_err(CallError::Failed)
    }

    /// Tells that a call went well that was not made through here.
    pub async fn succeeded(self) {
        self.tell(Verdict::Success).await;
    }

    /// Tells that a call failed that was not made through here.
    pub async fn failed(self) {
        self.tell(Verdict::Failure).await;
    }

    /// Tells that the platform was asked too often, and when it wants to be asked again. If the handler then returns an
    /// error, the job is tried again at that time.
    pub async fn rate_limited(self, retry_after: Option<Duration>) {
        self.tell(Verdict::RateLimited(retry_after)).await;
    }

    async fn tell(self, verdict: Verdict) {
        let Ok(name) = self.name else { return };
        let breakers = &self.ctx.limits().breakers;
        let Some(platform) = breakers.platform(&name) else { return };
        // A job that holds a permit is told by its answer that it does; others are told that they need none.
        let allowed = breakers.ask(&platform, self.ctx.fence()).await.unwrap_or(Allowed::ByUs);
        tell(self.ctx, &platform, allowed, Some(verdict)).await;
    }
}

async fn tell(ctx: &Context, platform: &Arc<Platform>, allowed: Allowed, verdict: Option<Verdict>) {
    let breakers = &ctx.limits().breakers;
    let Some(verdict) = verdict else { return breakers.left(platform, ctx.fence(), allowed).await };
    breakers.ended(platform, ctx.fence(), allowed, verdict).await;
    let pause = match verdict {
        Verdict::RateLimited(retry_after) => Some(breakers.pause(platform, retry_after)),
        Verdict::Success | Verdict::Failure => None,
    };
    ctx.note(|notes| {
        notes.told.push(platform.spec.name.clone());
        notes.pause = notes.pause.max(pause);
    });
}
