//! The start of a process: it declares, registers, and starts again when it was declared dead.

use std::time::Duration;

use windlass::worker::Moment;
use windlass::worker::heart::Heart;
use windlass::worker::pool::{Event, Pool};
use windlass::worker::quarantine::Quarantine;
use windlass_core::claim::ClaimToken;
use windlass_core::worker::{WorkerCard, WorkerId};

use super::keeping::Chore;
use super::{Body, Part, Stage, Wish};
use crate::plan::{BEAT_EVERY, LEASE, ProcessPlan};
use crate::store::Call;
use crate::test_rng::TestRng;

impl Body {
    /// Registers under a new identity each time: the previous one may have been registered although the
    /// answer was lost.
    pub(super) fn register(&mut self, part: Part, plan: &ProcessPlan, out: &mut Vec<Wish>) {
        self.worker = WorkerId::from_random(self.rng.bits128());
        let card = WorkerCard {
            id: self.worker,
            host: "simulated".to_owned(),
            pid: 1,
            version: String::new(),
            queues: plan.queues.clone(),
            types: plan.types.clone(),
            duties: Chore::led(),
            slots: 0,
            lease: LEASE,
        };
        out.push(Wish::Send(part, Call::Register(card)));
    }

    pub(super) fn come_up(&mut self, now: Moment, plan: &ProcessPlan) {
        self.stage = Stage::Up;
        self.heart = Heart::new(LEASE, BEAT_EVERY, now);
        self.heart.beat_by(now, Duration::ZERO);
        let quarantine = Quarantine::default();
        let worker = self.worker;
        self.pools = plan
            .pools
            .iter()
            .map(|settings| {
                let mut rng = TestRng::new(self.rng.bits());
                // In half of the pools, ends are settled in two concurrent batches whenever possible.
                let second_from = if rng.per_mille(500) { 1 } else { usize::MAX };
                let tokens = Box::new(move || ClaimToken::from_random(rng.bits128()));
                let pool = Pool::new(settings.clone(), worker, quarantine.shared(), tokens);
                pool.with_second_batch_from(second_from)
            })
            .collect();
        self.idle_since = vec![None; self.pools.len()];
    }

    pub(super) fn started_over(&mut self, now: Moment) {
        self.stage = Stage::Up;
        self.heart = Heart::new(LEASE, BEAT_EVERY, now);
        self.heart.beat_by(now, Duration::ZERO);
        let worker = self.worker;
        self.notify_pools(|| Event::Reborn(worker), now);
    }
}
