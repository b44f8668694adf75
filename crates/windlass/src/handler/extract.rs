//! The arguments that a handler can take besides its job.

use windlass_core::job::JobId;

use super::context::Context;

/// A value that a handler can take as an argument.
pub trait FromJob<S>: Sized {
    /// Takes the value from the context or the state.
    fn from_job(ctx: &Context, state: &S) -> Self;
}

/// A part of the application's state that can be taken on its own.
pub trait FromRef<S> {
    /// Takes the part.
    fn from_ref(state: &S) -> Self;
}

impl<S: Clone> FromRef<S> for S {
    fn from_ref(state: &S) -> Self {
        state.clone()
    }
}

/// The application's state, or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<S, T: FromRef<S>> FromJob<S> for State<T> {
    fn from_job(_ctx: &Context, state: &S) -> Self {
        Self(T::from_ref(state))
    }
}

impl<S> FromJob<S> for Context {
    fn from_job(ctx: &Context, _state: &S) -> Self {
        ctx.clone()
    }
}

impl<S> FromJob<S> for JobId {
    fn from_job(ctx: &Context, _state: &S) -> Self {
        ctx.job().id
    }
}

/// The number of this start of the handler, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt(pub u32);

impl<S> FromJob<S> for Attempt {
    fn from_job(ctx: &Context, _state: &S) -> Self {
        Self(ctx.job().counters.attempts)
    }
}
