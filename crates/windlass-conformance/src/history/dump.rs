//! The store's own record at the end.

use windlass_core::admin::{ListRequest, StoredJob};
use windlass_core::engine::{Admin, Result};
use windlass_core::limits::LIST_PAGE_MAX;

use super::event::{Entry, Event, Uid};

/// Reads every job of the store as [`Event::Final`] lines. `uid_of` reads the producer's name out of a job;
/// jobs without a name are left out.
pub async fn dump(store: &dyn Admin, uid_of: impl Fn(&StoredJob) -> Option<Uid>) -> Result<Vec<Entry>> {
    let mut lines = Vec::new();
    let mut before = None;
    loop {
        let page = store.list(ListRequest { before, limit: LIST_PAGE_MAX, ..ListRequest::default() }).await?;
        let Some(last) = page.last() else { return Ok(lines) };
        before = Some(last.job.id);
        lines.extend(page.iter().filter_map(|record| Some(last_line(record, uid_of(record)?))));
    }
}

fn last_line(record: &StoredJob, uid: Uid) -> Entry {
    let (job, job_state, counters) = (record.job.id, record.job_state(), record.job.counters);
    Entry { at: record.read_at, event: Event::Final { uid, job, job_state, counters } }
}
