//! The heart of a process: its heartbeats, and the effects of their answers.

use windlass::worker::Moment;
use windlass::worker::heart::HeartEffect;
use windlass::worker::pool::{CallFailure, Event};
use windlass_core::lease_watch::Own;
use windlass_core::worker::Heartbeat;

use super::{Body, Part, Stage, Wish};
use crate::plan::{LEASE, ProcessPlan};
use crate::store::{Answer, Call, Reply};

impl Body {
    pub(super) fn own(&self) -> Own {
        Own { worker: self.worker, failed: self.failed_heartbeats }
    }

    pub(super) fn beat(&mut self, now: Moment, out: &mut Vec<Wish>) {
        for effect in self.heart.effects(now) {
            match effect {
                HeartEffect::Send => {
                    let heartbeat = Heartbeat { worker: self.worker, lease: LEASE, idle: false };
                    out.push(Wish::Send(Part::Heart, Call::HeartbeatAnswer(heartbeat)));
                }
                HeartEffect::LeaseRanOut => self.notify_pools(|| Event::LeaseRanOut, now),
                HeartEffect::Cancel(_) | HeartEffect::Died => {}
            }
        }
    }

    pub(super) fn beaten(&mut self, answer: Answer, now: Moment, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        if answer.is_err() {
            self.failed_heartbeats += 1;
            out.push(Wish::HeartbeatFailed(self.worker));
        }
        let answer = answer.map_err(|_| CallFailure::Unknown).map(|reply| match reply {
            Reply::HeartbeatAnswer(heartbeat_answer) => {
                self.on_members(&heartbeat_answer, now, out);
                heartbeat_answer.beat
            }
            other => panic!("expected the answer to a heartbeat, got {other:?}"),
        });
        match self.heart.answered(answer, now) {
            Some(HeartEffect::Cancel(fences)) => fences.into_iter().for_each(|fence| self.cancel(fence, out)),
            Some(HeartEffect::Died) if self.stage == Stage::Up => {
                self.stage = Stage::StartingOver;
                self.register(Part::StartOver, plan, out);
            }
            _ => {}
        }
    }
}
