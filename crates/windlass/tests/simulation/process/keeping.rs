//! Its upkeep: one duty at a time.

use windlass::upkeep::Duty;
use windlass::worker::Moment;

use super::{Body, Part, Wish};
use crate::store::{Answer, Call, Reply};

impl Body {
    pub(super) fn do_duties(&mut self, now: Moment, out: &mut Vec<Wish>) {
        if self.duty_under_way {
            return;
        }
        if let Some(duty) = self.upkeep.next(now) {
            self.duty_under_way = true;
            let call = match duty {
                Duty::Look => Call::Look,
                Duty::Rescue(request) => Call::Rescue(request),
                Duty::Sweep => Call::Sweep,
                Duty::Prune => Call::Prune,
            };
            out.push(Wish::Send(Part::Upkeep, call));
        }
    }

    pub(super) fn kept(&mut self, answer: Answer, now: Moment) {
        self.duty_under_way = false;
        match answer {
            Ok(Reply::Workers(workers)) => self.upkeep.sighted(&workers, now),
            Ok(Reply::Rescued(rescued)) => self.upkeep.rescued(&rescued),
            Ok(Reply::Swept(done)) => self.upkeep.done(Duty::Sweep, done),
            _ => {}
        }
    }
}
