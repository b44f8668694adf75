//! Turns an async function into a handler.

use std::future::Future;
use std::sync::Arc;

use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};

use super::context::Context;
use super::extract::FromJob;
use super::returns::IntoOutcome;
use super::{Erased, Running};
use crate::job_type::JobType;

/// An async function whose first argument is a job of type `T` and whose other arguments, up to five, can be
/// taken from the context or the state. A missing part of the state is a compile error.
#[diagnostic::on_unimplemented(
    message = "this function cannot handle jobs with the state `{S}`",
    label = "not a handler",
    note = "a handler is an async function whose future is `Send`; its first argument implements `JobType`",
    note = "its other arguments, at most five, are `Context`, `Attempt`, `JobId`, or `State<T>` where `T` is the state given to `Handlers::new` or a part of it by `FromRef`",
    note = "it returns `()`, `Outcome`, `Json`, or a `Result` of one of them whose error can be printed"
)]
pub trait Handler<T, S, Args>: Clone + Send + Sync + 'static {
    /// Calls the function.
    fn call(&self, job: T, ctx: &Context, state: &S)
    -> impl Future<Output = AttemptOutcome> + Send + 'static;
}

macro_rules! handler {
    ($($arg:ident),*) => {
        #[allow(non_snake_case, unused_variables, reason = "one name serves as type and as variable")]
        impl<F, Fut, R, T, S, $($arg),*> Handler<T, S, ($($arg,)*)> for F
        where
            F: Fn(T, $($arg),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoOutcome,
            T: JobType,
            $($arg: FromJob<S> + Send,)*
        {
            fn call(&self, job: T, ctx: &Context, state: &S) -> impl Future<Output = AttemptOutcome> + Send + 'static {
                let running = self(job, $($arg::from_job(ctx, state)),*);
                async move { running.await.into_outcome() }
            }
        }
    };
}

handler!();
handler!(A1);
handler!(A1, A2);
handler!(A1, A2, A3);
handler!(A1, A2, A3, A4);
handler!(A1, A2, A3, A4, A5);

/// Hides the types of a handler. A payload that does not decode is an outcome like any other: it must
/// neither panic nor be retried, since it will not decode the next time either.
pub(super) fn erase<T, S, Args, H>(handler: H, state: S) -> Erased
where
    T: JobType,
    S: Clone + Send + Sync + 'static,
    H: Handler<T, S, Args>,
{
    Arc::new(move |ctx: Context| -> Running {
        match ctx.job().payload.decode::<T>() {
            Ok(job) => Box::pin(handler.call(job, &ctx, &state)),
            Err(error) => {
                let text = format!("the payload does not decode as {}: {error}", T::NAME);
                Box::pin(std::future::ready(AttemptOutcome::Failed(JobError::new(
                    ErrorKind::Undecodable,
                    text,
                ))))
            }
        }
    })
}
