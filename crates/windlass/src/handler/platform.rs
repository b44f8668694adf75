//! Calls to external platforms, with a circuit breaker in front of each.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::breaker::Verdict;
use windlass_core::gate::Gate;
use windlass_core::names::{BreakerName, NameError};

use super::context::Context;
use crate::limits::{Allowed, Platform};

/// An external platform, for one call. Made by [`Context::breaker`].
#[must_use = "nothing is called until `call` is awaited"]
pub struct PlatformCall<'a> {
    ctx: &'a Context,
    name: Result<BreakerName, NameError>,
}

/// The reason why a call returned no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError<E> {
    /// The breaker is open: no call was made. If a handler returns this error, its job is parked until the
    /// platform may be called again, which costs no attempt.
    #[error("breaker {0} is open, so no call was made")]
    Open(BreakerName),
    /// The call failed.
    #[error(transparent)]
    Failed(E),
    /// The name of the platform is invalid.
    #[error(transparent)]
    Name(NameError),
}

impl<'a> PlatformCall<'a> {
    pub(super) fn new(ctx: &'a Context, platform: &str) -> Self {
        Self { ctx, name: BreakerName::parse(platform) }
    }

    /// Makes the call, unless the breaker is open. An error counts as a failure of the platform.
    pub async fn call<T, E>(self, call: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E>> {
        let judge = |answer: &Result<T, E>| match answer {
            Ok(_) => Some(Verdict::Success),
            Err(_) => Some(Verdict::Failure),
        };
        self.call_judged(call, judge).await
    }

    /// Makes the call, unless the breaker is open, and lets the caller judge the answer. No verdict means
    /// that the answer says nothing of the platform, such as a refusal of invalid input. After a rate-limit
    /// answer, a handler that returns an error is retried when the platform said, or else after a pause
    /// that doubles each time.
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
        report(self.ctx, &platform, allowed, judge(&answer)).await;
        answer.map_err(CallError::Failed)
    }

    /// Reports the success of a call that was not made through this type.
    pub async fn succeeded(self) {
        self.report(Verdict::Success).await;
    }

    /// Reports the failure of a call that was not made through this type.
    pub async fn failed(self) {
        self.report(Verdict::Failure).await;
    }

    /// Reports that the platform was called too often, and when it may be called again. If the handler then
    /// returns an error, the job is retried at that time.
    pub async fn rate_limited(self, retry_after: Option<Duration>) {
        self.report(Verdict::RateLimited(retry_after)).await;
    }

    async fn report(self, verdict: Verdict) {
        let Ok(name) = self.name else { return };
        let breakers = &self.ctx.limits().breakers;
        let Some(platform) = breakers.platform(&name) else { return };
        // For a job that holds a permit, the answer says so; other jobs need no permit to report a result.
        let allowed = breakers.ask(&platform, self.ctx.fence()).await.unwrap_or(Allowed::ByUs);
        report(self.ctx, &platform, allowed, Some(verdict)).await;
    }
}

async fn report(ctx: &Context, platform: &Arc<Platform>, allowed: Allowed, verdict: Option<Verdict>) {
    let breakers = &ctx.limits().breakers;
    let Some(verdict) = verdict else { return breakers.left(platform, ctx.fence(), allowed).await };
    breakers.ended(platform, ctx.fence(), allowed, verdict).await;
    let pause = match verdict {
        Verdict::RateLimited(retry_after) => Some(breakers.pause(platform, retry_after)),
        Verdict::Success | Verdict::Failure => None,
    };
    ctx.note(|notes| {
        notes.reported.push(platform.spec.name.clone());
        notes.pause = notes.pause.max(pause);
    });
}
