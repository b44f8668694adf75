//! Reconciling declarations: a worker keeps its schedules and completion triggers stored. It stores them at
//! its start, later if the store is unavailable then, and once more when the store has lost the worker: the
//! cause of that loss, such as an emptied server, may have removed them as well.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::schedules::{Origin, ScheduleSpec};
use windlass_core::triggers::CompletionTrigger;

use crate::duties::mailbox::Mailbox;
use crate::schedules::{Schedules, SchedulesError};
use crate::triggers::{CompletionTriggers, TriggersError};
use crate::worker::{StartError, WorkerOptions};

/// The pause before declarations that could not be stored, because the store is unavailable, are stored
/// again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The declarations of one process.
pub(crate) struct Reconciler {
    schedules: (Schedules, Vec<ScheduleSpec>, Origin),
    triggers: (CompletionTriggers, Vec<CompletionTrigger>, Origin),
}

/// Whether a worker that starts has declarations left to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    All,
    Later,
}

/// The declarations that are to be stored.
#[derive(Debug, Clone, Copy)]
enum What {
    All,
    Missing,
}

impl Reconciler {
    pub(crate) fn of(engine: &Arc<dyn Engine>, options: &WorkerOptions) -> Self {
        let schedules = (options.schedules.clone(), options.schedules_origin);
        let triggers = (options.triggers.clone(), options.triggers_origin);
        Self {
            schedules: (Schedules::new(Arc::clone(engine)), schedules.0, schedules.1),
            triggers: (CompletionTriggers::new(Arc::clone(engine)), triggers.0, triggers.1),
        }
    }

    /// The same without schedules.
    pub(crate) fn of_triggers(engine: &Arc<dyn Engine>, options: &WorkerOptions) -> Self {
        Self::of(engine, &WorkerOptions { schedules: Vec::new(), ..options.clone() })
    }

    /// Stores all declarations. If the store is unavailable just now, and the engine lets a worker start
    /// all the same, that is left to [`keep`](Self::keep).
    pub(crate) async fn at_start(&self) -> Result<Stored, StartError> {
        match self.store().await {
            Err(error) if is_passing(&error) => {
                tracing::warn!(%error, "declaring schedules or completion triggers failed; trying again");
                Ok(Stored::Later)
            }
            stored => stored.map(|()| Stored::All),
        }
    }

    /// Stores the declarations that were not stored at the start, and the missing ones whenever the store
    /// has lost this worker. None if there are no declarations.
    pub(crate) fn keep(self, stored: Stored, mailbox: Mailbox) -> Option<JoinHandle<()>> {
        if self.schedules.1.is_empty() && self.triggers.1.is_empty() {
            return None;
        }
        Some(tokio::spawn(async move {
            if stored == Stored::Later {
                self.until_stored(What::All).await;
            }
            loop {
                mailbox.reborn().await;
                self.until_stored(What::Missing).await;
            }
        }))
    }

    /// Tries until the declarations are stored, or an error shows that they cannot be.
    async fn until_stored(&self, what: What) {
        let mut was_logged = false;
        loop {
            let stored = match what {
                What::All => self.store().await,
                What::Missing => self.store_missing().await,
            };
            let Err(error) = stored else { return };
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            if !of_engine(&error).is_some_and(|error| error.is_passing() || error.is_away()) {
                tracing::error!(%error, why, "declaring schedules or completion triggers failed; fix the error and restart");
                return;
            }
            if !was_logged {
                tracing::warn!(%error, why, "declaring schedules or completion triggers failed; trying again until the store accepts them");
            }
            was_logged = true;
            // may sleep: the store is unavailable, and no event announces that it is back.
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn store(&self) -> Result<(), StartError> {
        let (schedules, specs, origin) = &self.schedules;
        let first = schedules.apply_lenient(specs, *origin).await;
        let (triggers, specs, origin) = &self.triggers;
        let second = triggers.apply_lenient(specs, *origin).await;
        let (first, second) = (first.map_err(StartError::from), second.map_err(StartError::from));
        // A lasting error is returned before a passing one: a worker with invalid triggers must not start
        // because its store is unavailable.
        match second {
            Err(error) if !is_passing(&error) => Err(error),
            second => first.and(second),
        }
    }

    /// Stores only what is missing: changes that another version of the application has made to the others
    /// meanwhile stay.
    async fn store_missing(&self) -> Result<(), StartError> {
        let (schedules, specs, origin) = &self.schedules;
        let missing = schedules.missing(specs).await?;
        if !missing.is_empty() {
            tracing::warn!(count = missing.len(), "the store has lost schedules; storing them again");
        }
        schedules.apply_lenient(&missing, *origin).await?;
        let (triggers, specs, origin) = &self.triggers;
        let missing = triggers.missing(specs).await?;
        if !missing.is_empty() {
            tracing::warn!(
                count = missing.len(),
                "the store has lost completion triggers; storing them again"
            );
        }
        Ok(triggers.apply_lenient(&missing, *origin).await?)
    }
}

fn is_passing(error: &StartError) -> bool {
    of_engine(error).is_some_and(EngineError::is_passing)
}

/// The store's error, if the error came from the store.
fn of_engine(error: &StartError) -> Option<&EngineError> {
    match error {
        StartError::Schedules(SchedulesError::Engine(error)) => Some(error),
        StartError::CompletionTriggers(TriggersError::Engine(error)) => Some(error),
        StartError::Store(error) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use tracing::Level;
    use windlass_core::names::{ScheduleName, TriggerName, TypeName};
    use windlass_core::schedule::Schedule;
    use windlass_core::schedules::JobTemplate;
    use windlass_engines::memory::MemoryEngine;

    use super::*;
    use crate::log_capture::LogCapture;
    use crate::{Handlers, JobType, Watched, Worker};

    fn options() -> WorkerOptions {
        let job = || JobTemplate::new(TypeName::parse("work").unwrap());
        let every_hour = Schedule::parse("every 1h").unwrap();
        let schedule = ScheduleSpec::new(ScheduleName::parse("nightly").unwrap(), every_hour, job());
        let watched = Watched::Queue("default".parse().unwrap());
        let trigger = CompletionTrigger::new(TriggerName::parse("hook").unwrap(), watched, job());
        WorkerOptions { schedules: vec![schedule], triggers: vec![trigger], ..WorkerOptions::default() }
    }

    #[tokio::test]
    async fn what_a_store_has_forgotten_is_stored_again_when_it_has_forgotten_the_worker_too() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let reconcile = Reconciler::of(&engine, &options());
        assert_eq!(reconcile.at_start().await.unwrap(), Stored::All);
        let (schedules, triggers) =
            (Schedules::new(Arc::clone(&engine)), CompletionTriggers::new(Arc::clone(&engine)));
        let (nightly, hook) = (options().schedules[0].name.clone(), options().triggers[0].name.clone());
        schedules.remove(&nightly).await.unwrap();
        triggers.remove(&hook).await.unwrap();
        let mailbox = Mailbox::default();
        let keeping = reconcile.keep(Stored::All, mailbox.clone()).unwrap();
        mailbox.was_reborn();
        while schedules.find(&nightly).await.is_err() || triggers.find(&hook).await.is_err() {
            tokio::task::yield_now().await;
        }
        keeping.abort();
    }

    #[tokio::test]
    async fn what_another_version_has_changed_meanwhile_stays() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let reconcile = Reconciler::of(&engine, &options());
        reconcile.at_start().await.unwrap();
        let schedules = Schedules::new(engine);
        let mut newer = options().schedules;
        newer[0].schedule = Schedule::parse("every 2h").unwrap();
        schedules.declare(&newer, Origin::Code).await.unwrap();
        reconcile.store_missing().await.unwrap();
        assert_eq!(schedules.find(&newer[0].name).await.unwrap().0.record.spec, newer[0]);
    }

    #[derive(Serialize, Deserialize)]
    struct Work;

    impl JobType for Work {
        const NAME: &'static str = "work";
    }

    async fn work(_: Work) {}

    /// The log lines about undeclared schedules and triggers when a worker with these options starts.
    async fn said_at_start(engine: &Arc<dyn Engine>, options: WorkerOptions) -> [Vec<String>; 2] {
        let log = LogCapture::from(Level::INFO);
        let handlers = Handlers::new(()).handle(work);
        let mut worker = Worker::start(Arc::clone(engine), handlers, options).await.unwrap();
        worker.stop().await;
        ["schedule", "completion trigger"]
            .map(|what| log.lines_with(&format!("a stored {what} is not declared")))
    }

    #[tokio::test]
    async fn a_worker_says_when_it_starts_which_schedules_and_triggers_its_code_no_longer_declares() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        Reconciler::of(&engine, &options()).at_start().await.unwrap();
        assert_eq!(said_at_start(&engine, options()).await, [[], []] as [[String; 0]; 2]);
        let [schedules, triggers] = said_at_start(&engine, WorkerOptions::default()).await;
        assert!(matches!(&schedules[..], [line] if line.contains("schedule=nightly")), "{schedules:?}");
        assert!(matches!(&triggers[..], [line] if line.contains("trigger=hook")), "{triggers:?}");
        let configured = WorkerOptions {
            schedules_origin: Origin::Configuration,
            triggers_origin: Origin::Configuration,
            ..WorkerOptions::default()
        };
        let said = said_at_start(&engine, configured).await;
        assert_eq!(
            said,
            [[], []] as [[String; 0]; 2],
            "declarations of code are not reported to a worker that declares by configuration"
        );
    }
}
