//! The acts of operators.

use windlass_conformance::history::Event;
use windlass_core::admin::CancelAnswer;
use windlass_core::job::JobId;

use super::{Moment, Observer};

impl Observer {
    pub(super) fn saw_cancel(&mut self, id: JobId, answer: CancelAnswer, at: &Moment<'_>) {
        if matches!(answer, CancelAnswer::Cancelled | CancelAnswer::Requested) {
            let uid = self.uid(id);
            self.note(at, Event::CancelAccepted { uid });
            if let Some(seen) = self.jobs.get_mut(&id) {
                seen.cancelled = true;
                seen.ended |= answer == CancelAnswer::Cancelled;
            }
        }
    }

    /// Records a retry. A dead letter starts again with fresh counters; a waiting job only becomes due
    /// earlier.
    pub(super) fn saw_retry(&mut self, id: JobId, at: &Moment<'_>) {
        let uid = self.uid(id);
        let Some(seen) = self.jobs.get_mut(&id) else { return };
        if std::mem::take(&mut seen.ended) {
            seen.crashes = 0;
            self.note(at, Event::StartedOver { uid });
        }
    }
}
