//! Duties: work that is done for all processes, again and again, by one of them at a time or by each. Maintenance is made of such
//! duties, and an application adds its own:
//!
//! ```
//! use std::time::Duration;
//! use windlass::duties::{Duty, DutyContext};
//! use windlass::WorkerOptions;
//!
//! async fn refresh_totals(context: DutyContext) -> Result<(), std::io::Error> {
//!     for part in 0..10 {
//!         if context.is_stopped() {
//!             break; // somebody else leads now, or the process ends
//!         }
//!         // … write under context.fence(), so that a leader that slept writes nothing …
//!         context.did(part);
//!     }
//!     Ok(())
//! }
//!
//! let totals = Duty::new("refresh_totals", Duration::from_secs(60), refresh_totals).unwrap();
//! let options = WorkerOptions { duties: vec![totals], ..WorkerOptions::default() };
//! # assert_eq!(options.duties.len(), 1);
//! ```
//!
//! Who does it is its [mode](DutyMode): the holder of its lease, unless something else is said. **Whatever a duty does must be right if
//! two do it at once**: a lease saves work and proves nothing. What a leader that slept must not do any more, it does in a statement
//! that names the [fence](DutyContext::fence).
//!
//! [`duty_status`] decides, without any I/O; the shell around it has a thread of its own, so that a handler that blocks the runtime costs
//! no lease. The duties of an application run on the runtime on which its worker was started.

pub mod status;
mod locks;
mod alert;
mod refusals;
mod context;
pub(crate) mod built_in;
pub(crate) mod mailbox;
pub(crate) mod shell;
pub(crate) mod prepare;
pub(crate) mod boot_clock;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use alert::DutyAlert;
pub use built_in::MAINTENANCE_ROTATION_MIN;
pub use context::{DutyContext, IntoDutyEnd};
pub use locks::LockCall;
pub use windlass_core::duty::{DutyMode, DutyModes, DutySpec};
use windlass_core::error::EngineError;
pub use windlass_core::lease::lease_client::LeaseTiming;
pub use windlass_core::lease::{DutyNotes, LeaseFence};
pub use windlass_core::names::DutyName;
use windlass_core::names::NameError;

/// How a run of a duty ended: why it failed, if it did.
type DutyEnd = Result<(), String>;

/// What is called for each run.
pub type DutyRun = Arc<dyn Fn(DutyContext) -> Pin<Box<dyn Future<Output = DutyEnd> + Send>> + Send + Sync>;

/// A duty of an application. All workers that could do it name it alike.
#[derive(Clone)]
pub struct Duty {
    /// Its name, which is also that of its lease.
    pub name: DutyName,
    /// From the start of one run to the start of the next: 100 ms to ten years. It goes on when leaders change.
    pub interval: Duration,
    /// Who does it.
    pub mode: DutyMode,
    /// Whoever leads for this long gives way between two runs. Only where there is a leader.
    pub rotation: Option<Duration>,
    /// What is done. A run that is asked to stop and goes on for five seconds more is dropped at its next await.
    pub run: DutyRun,
}

impl Duty {
    /// A duty that the holder of its lease does, without rotation. The function returns `()` or a `Result`.
    pub fn new<F, Fut>(name: &str, interval: Duration, run: F) -> Result<Self, NameError>
    where
        F: Fn(DutyContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoDutyEnd,
    {
        let run = Arc::new(run);
        Ok(Self {
            name: DutyName::parse(name)?,
            interval,
            mode: DutyMode::default(),
            rotation: None,
            run: Arc::new(move |context| {
                let ended = run(context);
                Box::pin(async move { ended.await.into_duty_end() })
            }),
        })
    }

    /// What core knows of it.
    pub fn spec(&self) -> DutySpec {
        DutySpec {
            name: self.name.clone(),
            interval: self.interval,
            mode: self.mode,
            rotation: self.rotation,
        }
    }
}

impl fmt::Debug for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duty").field("spec", &self.spec()).finish_non_exhaustive()
    }
}

/// Refuses duties that cannot work, or not on this engine.
pub(crate) fn check(duties: &[Duty], modes: DutyModes) -> Result<(), EngineError> {
    for (at, duty) in duties.iter().enumerate() {
        duty.spec().check(modes)?;
        let is_built_in = built_in::NAMES.contains(&duty.name.as_str());
        if is_built_in || duties[..at].iter().any(|other| other.name == duty.name) {
            return Err(EngineError::Refused(format!(
                "expected each duty to have a name of its own, got {} twice; Windlass itself has {}",
                duty.name,
                built_in::NAMES.join(", ")
            )));
        }
    }
    Ok(())
}
