//! Handlers: async functions that do the work. Their first argument is the job; the others are taken from the
//! job, the context or the application's state by their type.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::job_type::TypeSpec;
use windlass_core::names::{BreakerName, NameError, TypeName};
use windlass_core::outcome::AttemptOutcome;

use crate::job_type::{JobType, spec_of};

mod call;
mod context;
mod extract;
mod platform;
mod progress;
mod returns;

pub use call::Handler;
pub use context::{Context, JobCancelled, ProgressError};
pub use extract::{Attempt, FromJob, FromRef, State};
pub use platform::{CallError, PlatformCall};
pub use returns::{IntoOutcome, Json, Outcome};

pub(crate) use context::JobControl;

/// A running handler. Boxed, since handlers of many types live in one table.
pub(crate) type Running = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// A handler whose types are hidden.
pub(crate) type Erased = Arc<dyn Fn(Context) -> Running + Send + Sync>;

/// Code that runs around every job, for tracing, pools and tenancy. Hooks run in the order in which they
/// were added before a handler, and in the opposite order after it.
pub trait Hook: Send + Sync + 'static {
    /// Runs before the handler is called.
    fn before(&self, _ctx: &Context) {}

    /// Runs after the handler ended, in whatever way.
    fn after(&self, _ctx: &Context, _outcome: &AttemptOutcome) {}
}

/// All handlers of an application, with the state they share.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Handlers, JobType, State};
/// # #[derive(Serialize, Deserialize)] struct SendMail { to: String }
/// # impl JobType for SendMail { const NAME: &'static str = "mail.send"; }
/// #[derive(Clone)]
/// struct Mailer;
///
/// async fn send_mail(job: SendMail, State(_mailer): State<Mailer>) -> Result<(), std::io::Error> {
///     println!("to {}", job.to);
///     Ok(())
/// }
///
/// let handlers = Handlers::new(Mailer).handle(send_mail);
/// ```
///
/// A missing state is a compile error, not a surprise at run time:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Handlers, JobType, State};
/// # #[derive(Serialize, Deserialize)] struct SendMail { to: String }
/// # impl JobType for SendMail { const NAME: &'static str = "mail.send"; }
/// # #[derive(Clone)]
/// # struct Mailer;
/// # async fn send_mail(job: SendMail, State(_mailer): State<Mailer>) -> Result<(), std::io::Error> {
/// #     println!("to {}", job.to);
/// #     Ok(())
/// # }
/// let handlers = Handlers::new(()).handle(send_mail); // there is no Mailer in ()
/// ```
pub struct Handlers<S = ()> {
    state: S,
    table: BTreeMap<TypeName, Registered>,
    hooks: Vec<Arc<dyn Hook>>,
    errors: Vec<HandlersError>,
}

#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) spec: TypeSpec,
    pub(crate) handler: Erased,
    /// The external platforms that its jobs call.
    pub(crate) platforms: Vec<BreakerName>,
}

impl<S: Clone + Send + Sync + 'static> Handlers<S> {
    /// Creates a set without handlers. Every handler can take `state`, or parts of it, with [`State`].
    pub fn new(state: S) -> Self {
        Self { state, table: BTreeMap::new(), hooks: Vec::new(), errors: Vec::new() }
    }

    /// Adds a handler. The type of its first argument decides which jobs it handles.
    #[must_use]
    pub fn handle<T: JobType, Args>(self, handler: impl Handler<T, S, Args>) -> Self {
        self.handle_with(handler, |spec| spec)
    }

    /// Adds a handler and changes the defaults of its type, for example from configuration.
    #[must_use]
    pub fn handle_with<T: JobType, Args>(
        mut self,
        handler: impl Handler<T, S, Args>,
        change: impl FnOnce(TypeSpec) -> TypeSpec,
    ) -> Self {
        match spec_of::<T>() {
            Ok(spec) => self.add(change(spec), call::erase(handler, self.state.clone())),
            Err(why) => self.errors.push(HandlersError::Name(why)),
        }
        self
    }

    /// Declares that jobs of a type call an external platform. While its circuit breaker is open the jobs
    /// wait, at no cost; the ends of the jobs show whether the platform works. Call it after the handler
    /// was added.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Handlers, JobType};
    /// # #[derive(Serialize, Deserialize)] struct Fetch;
    /// # impl JobType for Fetch { const NAME: &'static str = "fetch"; }
    /// # async fn fetch(_job: Fetch) -> Result<(), std::io::Error> { Ok(()) }
    /// let handlers = Handlers::new(()).handle(fetch).calls::<Fetch>("shop");
    /// ```
    #[must_use]
    pub fn calls<T: JobType>(mut self, platform: &str) -> Self {
        match (BreakerName::parse(platform), TypeName::parse(T::NAME)) {
            (Ok(platform), Ok(name)) => match self.table.get_mut(&name) {
                Some(registered) => registered.platforms.push(platform),
                None => self.errors.push(HandlersError::NoHandler(name)),
            },
            (Err(why), _) | (_, Err(why)) => self.errors.push(HandlersError::Name(why)),
        }
        self
    }

    /// Adds a hook around every job.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// The registered types.
    pub fn types(&self) -> impl Iterator<Item = &TypeSpec> {
        self.table.values().map(|registered| &registered.spec)
    }

    /// Changes the defaults of the types that are registered, for example from configuration.
    #[must_use]
    pub fn configure(mut self, change: impl Fn(TypeSpec) -> TypeSpec) -> Self {
        for registered in self.table.values_mut() {
            registered.spec = change(registered.spec.clone());
        }
        self
    }

    fn add(&mut self, spec: TypeSpec, handler: Erased) {
        let name = spec.name.clone();
        if self.table.insert(name.clone(), Registered { spec, handler, platforms: Vec::new() }).is_some() {
            self.errors.push(HandlersError::Twice(name));
        }
    }

    pub(crate) fn finish(self) -> Result<Table, HandlersError> {
        match self.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(Table { handlers: self.table, hooks: self.hooks.into() }),
        }
    }
}

/// Checked handlers, ready to be called by name.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) handlers: BTreeMap<TypeName, Registered>,
    pub(crate) hooks: Arc<[Arc<dyn Hook>]>,
}

impl Table {
    /// The types that are handled.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &TypeSpec> {
        self.handlers.values().map(|registered| &registered.spec)
    }
}

/// The reason why a set of handlers is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlersError {
    /// The name of a type or queue is invalid.
    #[error(transparent)]
    Name(NameError),
    /// A type has two handlers.
    #[error("expected one handler for job type {0}, got two")]
    Twice(TypeName),
    /// A platform was named for a type that has no handler.
    #[error("expected a handler for job type {0} before the platforms that its jobs call, got none")]
    NoHandler(TypeName),
}
