//! The pools and handlers of a process: it performs the effects of a pool, and notifies the pool of the
//! results.

use std::time::Duration;

use windlass::duties::status::DutyStatusEvent;
use windlass::worker::Moment;
use windlass::worker::pool::{Effect, Event};
use windlass_core::claim::{Claimed, Fence};
use windlass_core::engine::Hint;
use windlass_core::outcome::AttemptOutcome;
use windlass_core::settle::AttemptReport;

use super::{Body, Input, Part, Run, Wish};
use crate::handler::{Ends, Script};
use crate::plan::{Pace, ProcessPlan};
use crate::store::Call;

/// How long a handler may continue after it was asked to stop.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// How soon the heart sends a heartbeat after the store has answered that the worker is dead.
const SOON: Duration = Duration::from_millis(500);

impl Body {
    pub(super) fn pump_pools(
        &mut self,
        now: Moment,
        true_now: Duration,
        pace: Pace,
        seed: u64,
        out: &mut Vec<Wish>,
    ) {
        for at in 0..self.pools.len() {
            let mut effects = self.pools[at].effects(now);
            // The order in which a map returns the handlers to stop is random; the order here must be the
            // same each time.
            effects.sort_by_key(|effect| if let Effect::Abort(fence) = effect { Some(*fence) } else { None });
            effects.into_iter().for_each(|effect| self.perform(at, effect, now, pace, seed, out));
            let idle = self.pools[at].held() == 0;
            self.idle_since[at] = idle.then(|| self.idle_since[at].unwrap_or(true_now));
        }
    }

    fn perform(
        &mut self,
        at: usize,
        effect: Effect,
        now: Moment,
        pace: Pace,
        seed: u64,
        out: &mut Vec<Wish>,
    ) {
        match effect {
            Effect::Claim(request) => {
                out.push(Wish::Send(Part::Claim(at, request.token), Call::Claim(request)));
            }
            Effect::Settle(number, batch) => {
                let first = batch.iter().filter(|settlement| self.reported.insert(settlement.fence));
                out.extend(first.cloned().map(Wish::Ended));
                out.push(Wish::Send(Part::Settle(at, number), Call::Settle(batch)));
            }
            Effect::Start(claimed) => self.start(at, &claimed, now, pace, seed, out),
            Effect::Abort(fence) => {
                if let Some(run) = self.runs.get(&fence) {
                    let outcome = AttemptOutcome::Released { started: true };
                    let input = Input::RunEnds { fence, run: run.number, outcome };
                    out.push(Wish::Later(Duration::from_millis(1), input));
                }
            }
            Effect::Died => self.heart.beat_by(now, SOON),
            Effect::ClaimLost(_) => {}
            Effect::GaveUp(settlement) => {
                out.push(Wish::Broke("gave up an end", format!("{:?}", settlement.fence)));
            }
        }
    }

    fn start(
        &mut self,
        pool: usize,
        claimed: &Claimed,
        now: Moment,
        pace: Pace,
        seed: u64,
        out: &mut Vec<Wish>,
    ) {
        self.next_run += 1;
        let (fence, number) = (claimed.fence(), self.next_run);
        let throw = u64::from_be_bytes(fence.token.to_bytes()[8..].try_into().expect("eight bytes"));
        let script = Script::of(seed, fence.job.0, throw, pace);
        let run = Run { pool, number, since: now, listens: script.listens, cancelled: false };
        if self.runs.insert(fence, run).is_some() {
            out.push(Wish::Broke("ran twice at once", format!("{fence:?}")));
        }
        out.push(Wish::Started { claimed: Box::new(claimed.clone()), worker: self.worker });
        out.push(match script.ends {
            Ends::With(outcome) => Wish::Later(script.lasts, Input::RunEnds { fence, run: number, outcome }),
            Ends::KillsItsProcess => Wish::DieAfter(script.lasts, fence, number),
        });
    }

    pub(super) fn run_ends(&mut self, fence: Fence, number: u64, outcome: AttemptOutcome, now: Moment) {
        if self.runs.get(&fence).is_none_or(|run| run.number != number) {
            return;
        }
        let Some(run) = self.runs.remove(&fence) else { return };
        let report = AttemptReport { ran_for: now - run.since, ..AttemptReport::default() };
        self.notify_pool(run.pool, Event::Ended { fence, outcome, report }, now);
    }

    pub(super) fn hinted(&mut self, hint: &Hint, plan: &ProcessPlan, now: Moment, out: &mut Vec<Wish>) {
        match hint {
            Hint::Queue(queue) => {
                for (at, settings) in plan.pools.iter().enumerate() {
                    if settings.scope.queues.contains(queue) {
                        self.notify_pool(at, Event::Hint, now);
                    }
                }
            }
            Hint::Cancel(fence) => self.cancel(*fence, out),
            Hint::Lease(duty) => self.notify_duties(DutyStatusEvent::Hint(duty.clone()), now, out),
            Hint::Quiet(_) | Hint::Trigger => {}
            Hint::Any => {
                self.notify_pools(|| Event::Hint, now);
                self.notify_duties(DutyStatusEvent::HintOfAnything, now, out);
            }
        }
    }

    /// Cancels a run. A handler that listens ends soon; another one is stopped after a grace period.
    pub(super) fn cancel(&mut self, fence: Fence, out: &mut Vec<Wish>) {
        let Some(run) = self.runs.get_mut(&fence).filter(|run| !run.cancelled) else { return };
        run.cancelled = true;
        let after = if run.listens { Duration::from_millis(10) } else { CANCEL_GRACE };
        let outcome = AttemptOutcome::Cancelled("the job was asked to stop".to_owned());
        out.push(Wish::Later(after, Input::RunEnds { fence, run: run.number, outcome }));
    }
}
