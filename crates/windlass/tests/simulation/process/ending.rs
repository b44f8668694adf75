//! The stop of a process: clean if its pools end in time.

use std::time::Duration;

use windlass::duties::status::DutyStatusEvent;
use windlass::worker::Moment;
use windlass::worker::pool::{Event, Pool};

use super::{Body, Part, Stage, Wish};
use crate::store::Call;

/// How long the last settlements may take after the grace of a stop.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

impl Body {
    pub(super) fn stop(&mut self, grace: Duration, now: Moment, out: &mut Vec<Wish>) {
        if self.stop_by.is_none() && self.stage == Stage::Up {
            self.stop_by = Some(now + grace + FLUSH_GRACE);
            self.notify_pools(|| Event::Stop { grace }, now);
            self.notify_duties(DutyStatusEvent::Stop, now, out);
        }
    }

    pub(super) fn leave_when_done(&mut self, now: Moment, out: &mut Vec<Wish>) {
        let Some(by) = self.stop_by else { return };
        let clean = self.pools.iter().all(Pool::has_ended);
        if clean || now >= by {
            self.stage = Stage::Leaving;
            self.pools.clear();
            self.runs.clear();
            out.push(Wish::Leaves { worker: self.worker, clean });
            out.push(Wish::Send(Part::Leave, Call::Retire(self.worker)));
        }
    }
}
