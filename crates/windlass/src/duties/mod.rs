//! Duties: periodic work that one process does for all, or that each process does. Maintenance consists of
//! such duties, and an application adds its own:
//!
//! ```
//! use std::time::Duration;
//! use windlass::duties::{Duty, DutyContext};
//! use windlass::WorkerOptions;
//!
//! async fn refresh_totals(context: DutyContext) -> Result<(), std::io::Error> {
//!     for part in 0..10 {
//!         if context.is_stopped() {
//!             break; // another process leads now, or this one ends
//!         }
//!         // … write under context.fence(), so that a leader that was suspended writes nothing …
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
//! The [mode](DutyMode) decides which process does it: by default the holder of its lease. **The work of a
//! duty must be right if two processes do it at once**: a lease saves work and proves nothing. A write that
//! a leader must not make after its term, such as one that was suspended, belongs in a statement that names
//! the [fence](DutyContext::fence).
//!
//! [`status`] decides, without any I/O; the shell around it has a thread of its own, so that a handler that
//! blocks the runtime costs no lease. The duties of an application run on the runtime on which its worker
//! was started.

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

/// The end of a duty's run: the reason why it failed, if it did.
type DutyEnd = Result<(), String>;

/// The function that is called for each run.
pub type DutyRun = Arc<dyn Fn(DutyContext) -> Pin<Box<dyn Future<Output = DutyEnd> + Send>> + Send + Sync>;

/// A duty of an application. All workers that could do it name it alike.
#[derive(Clone)]
pub struct Duty {
    /// Its name, which is also that of its lease.
    pub name: DutyName,
    /// From the start of one run to the start of the next: 100 ms to ten years. It continues across changes
    /// of leader.
    pub interval: Duration,
    /// Which process does it.
    pub mode: DutyMode,
    /// How long a process leads before it gives way between two runs. Only where there is a leader.
    pub rotation: Option<Duration>,
    /// The work. A run that was asked to stop and goes on for five seconds more is dropped at its next await.
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

    /// The specification of the duty for core.
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
