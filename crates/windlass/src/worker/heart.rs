//! A worker's heartbeats, without any I/O: when to send one, how long the lease can be trusted, and what an
//! answer means.

use std::time::Duration;

use windlass_core::claim::Fence;
use windlass_core::worker::Liveness;

use super::Moment;
use super::pool::CallFailure;

/// Decides when to send heartbeats and how long to trust the lease.
#[derive(Debug)]
pub struct Heart {
    lease: Duration,
    every: Duration,
    beat_at: Moment,
    sent_at: Option<Moment>,
    /// Counted from the moment a request was sent, not from when its answer came: the store counts from an
    /// instant in between.
    trusted_until: Moment,
    trusted: bool,
    /// The number of heartbeats in a row without an answer since the lease ran out.
    unanswered: u32,
}

/// An action or a finding of the heartbeat logic.
#[derive(Debug, PartialEq, Eq)]
pub enum HeartEffect {
    /// Send a heartbeat; answer with [`Heart::answered`].
    Send,
    /// These jobs were asked to stop.
    Cancel(Vec<Fence>),
    /// The local deadline passed without an answer.
    LeaseRanOut,
    /// The store declared this worker dead.
    Died,
}

impl Heart {
    /// Creates the heartbeat state of a worker that registered at `now`.
    pub fn new(lease: Duration, every: Duration, now: Moment) -> Self {
        Self {
            lease,
            every,
            beat_at: now.saturating_add(every),
            sent_at: None,
            trusted_until: now.saturating_add(lease),
            trusted: true,
            unanswered: 0,
        }
    }

    /// The effects that are due at `now`.
    pub fn effects(&mut self, now: Moment) -> Vec<HeartEffect> {
        let mut effects = Vec::new();
        if self.trusted && now >= self.trusted_until {
            self.trusted = false;
            effects.push(HeartEffect::LeaseRanOut);
        }
        if self.sent_at.is_none() && now >= self.beat_at {
            self.sent_at = Some(now);
            effects.push(HeartEffect::Send);
        }
        effects
    }

    /// Takes in the answer to a heartbeat, or its failure.
    pub fn answered(&mut self, answer: Result<Liveness, CallFailure>, now: Moment) -> Option<HeartEffect> {
        let sent_at = self.sent_at.take().unwrap_or(now);
        match answer {
            Ok(Liveness::Alive { cancel }) => {
                self.trusted_until = sent_at.saturating_add(self.lease);
                (self.trusted, self.unanswered) = (true, 0);
                self.beat_at = sent_at.saturating_add(self.every);
                (!cancel.is_empty()).then_some(HeartEffect::Cancel(cancel))
            }
            Ok(Liveness::Dead) => {
                self.beat_at = Moment::MAX;
                Some(HeartEffect::Died)
            }
            Err(_) => {
                self.beat_at = now.saturating_add(self.again_after());
                None
            }
        }
    }

    /// The pause after a failed heartbeat. It is shorter than usual while the lease is running out. Once
    /// the lease has run out a short pause saves nothing, and all workers at once would overload a store
    /// that comes back: each failure doubles the pause, up to the usual.
    fn again_after(&mut self) -> Duration {
        let soon = self.every / 10;
        if self.trusted {
            return soon;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        soon.saturating_mul(1 << (self.unanswered - 1).min(10)).min(self.every)
    }

    /// Sends the next heartbeat after at most `wait`, because its answer may carry news.
    pub fn beat_by(&mut self, now: Moment, wait: Duration) {
        self.beat_at = self.beat_at.min(now.saturating_add(wait));
    }

    /// When an effect is due even if no event comes.
    pub fn wake_at(&self) -> Moment {
        let beat = if self.sent_at.is_none() { self.beat_at } else { Moment::MAX };
        let deadline = if self.trusted { self.trusted_until } else { Moment::MAX };
        beat.min(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);
    const EVERY: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    fn heart() -> Heart {
        Heart::new(LEASE, EVERY, Moment::ZERO)
    }

    #[test]
    fn it_beats_as_often_as_it_should() {
        let mut heart = heart();
        assert_eq!(heart.effects(SECOND * 9), []);
        assert_eq!(heart.effects(SECOND * 10), [HeartEffect::Send]);
        assert_eq!(heart.effects(SECOND * 11), [], "one is in flight");
        heart.answered(Ok(Liveness::Alive { cancel: vec![] }), SECOND * 12);
        assert_eq!(heart.wake_at(), SECOND * 20);
    }

    #[test]
    fn the_lease_is_trusted_from_when_the_request_left() {
        let mut heart = heart();
        heart.effects(SECOND * 10);
        heart.answered(Ok(Liveness::Alive { cancel: vec![] }), SECOND * 25);
        assert_eq!(heart.trusted_until, SECOND * 40);
    }

    #[test]
    fn without_answers_the_lease_runs_out_once() {
        let mut heart = heart();
        heart.effects(SECOND * 10);
        heart.answered(Err(CallFailure::Unknown), SECOND * 15);
        assert_eq!(heart.effects(SECOND * 30), [HeartEffect::LeaseRanOut, HeartEffect::Send]);
        heart.answered(Err(CallFailure::NotDone), SECOND * 31);
        assert_eq!(heart.effects(SECOND * 32), [HeartEffect::Send]);
    }

    #[test]
    fn once_the_lease_has_run_out_it_beats_less_and_less_often_until_an_answer_comes() {
        let mut heart = heart();
        let mut beats = Vec::new();
        while heart.wake_at() < SECOND * 80 {
            let now = heart.wake_at();
            if heart.effects(now).contains(&HeartEffect::Send) {
                beats.push(now.as_secs());
                heart.answered(Err(CallFailure::NotDone), now);
            }
        }
        assert_eq!(beats[..21], (10..=30).collect::<Vec<_>>()[..], "each second while it runs out");
        assert_eq!(beats[21..], [31, 33, 37, 45, 55, 65, 75]);
        heart.effects(SECOND * 85);
        heart.answered(Ok(Liveness::Alive { cancel: vec![] }), SECOND * 85);
        assert_eq!(heart.wake_at(), SECOND * 95);
    }

    #[test]
    fn a_late_answer_restores_trust() {
        let mut heart = heart();
        heart.effects(SECOND * 29);
        heart.effects(SECOND * 31);
        heart.answered(Ok(Liveness::Alive { cancel: vec![] }), SECOND * 32);
        assert!(heart.trusted);
    }

    #[test]
    fn a_dead_worker_beats_no_more() {
        let mut heart = heart();
        heart.effects(SECOND * 10);
        assert_eq!(heart.answered(Ok(Liveness::Dead), SECOND * 10), Some(HeartEffect::Died));
        assert_eq!(heart.effects(SECOND * 29), []);
    }
}
