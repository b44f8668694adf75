//! The job of the fault tests: its handler records in the ledger that it begins and how it ends.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass::{Context, Handlers, JobType, RetryPolicy, State, TypeSpec};
use windlass_conformance::history::{Event, Outcome, Uid};

use super::shared_ledger::SharedLedger;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Errand {
    pub(super) uid: Uid,
}

impl JobType for Errand {
    const NAME: &'static str = "errand";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        let retry = RetryPolicy::Fixed { every: Duration::from_millis(1), attempts: 10 };
        TypeSpec { retry, ..spec }
    }
}

/// The ledger, the name under which this process writes, and how often a job began or ended here.
#[derive(Clone)]
pub(super) struct Scribe {
    shared_ledger: Arc<SharedLedger>,
    name: String,
    worked: watch::Sender<usize>,
}

impl Scribe {
    fn note(&self, event: Event) {
        self.shared_ledger.note(event);
        self.worked.send_modify(|count| *count += 1);
    }
}

pub(super) fn handlers(
    shared_ledger: &Arc<SharedLedger>,
    name: &str,
    worked: &watch::Sender<usize>,
) -> Handlers<Scribe> {
    let scribe =
        Scribe { shared_ledger: Arc::clone(shared_ledger), name: name.to_owned(), worked: worked.clone() };
    Handlers::new(scribe).handle(run)
}

/// Runs a job. One attempt in ten fails, up to three times.
async fn run(job: Errand, ctx: Context, State(scribe): State<Scribe>) -> Result<(), std::io::Error> {
    let token = ctx.fence().token;
    scribe.note(Event::start(job.uid.clone(), token, &scribe.name));
    // may sleep: this is the work; it takes long enough that some job runs at every moment.
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
    if ctx.job().counters.failures < 3 && fastrand::u8(..10) == 0 {
        scribe.note(Event::end(job.uid, token, Outcome::Failed));
        return Err(std::io::Error::other("a planned failure"));
    }
    scribe.note(Event::end(job.uid, token, Outcome::Done));
    Ok(())
}
