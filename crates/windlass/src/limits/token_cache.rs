//! The tokens of one rate-limit key that one process has at hand. Pure: answers of the store go in,
//! decisions come out.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::rate_limit::{Pace, TOKEN_BATCH_LAPSE, TOKEN_BATCH_SPAN, Taken, TokenBatch, take};

/// The state of one key in this process.
#[derive(Debug)]
pub(super) struct TokenCache {
    /// The tokens that this process has used, from whichever source. A process keeps the whole limit by
    /// itself whatever the store does: for a limit of its own, while the store is unavailable, and when the
    /// store comes back and does not know which tokens were used meanwhile.
    own: Option<Timestamp>,
    /// Whether some of these tokens were taken without the store, so that no other process knows of them.
    is_alone: bool,
    /// The tokens from the store that are left.
    batch: TokenBatch,
    /// How many tokens of the last batch were used so far. A batch that lapses is lost to all processes, so
    /// the batch size grows only while batches are used up.
    used: u32,
    /// When the store was last asked for tokens.
    asked_at: Timestamp,
    /// Until then there is no token, and a caller need not ask the store.
    closed_until: Option<Timestamp>,
}

/// The answer to a request for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A token was taken.
    Go,
    /// There is no token for this long.
    Wait(Duration),
    /// Only the store knows.
    AskStore,
}

impl TokenCache {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            own: None,
            is_alone: false,
            batch: TokenBatch::new(0, now),
            used: 0,
            asked_at: now,
            closed_until: None,
        }
    }

    /// Takes a token that processes share, or returns what to do instead.
    pub(super) fn want_shared(&mut self, pace: Pace, now: Timestamp) -> Wanted {
        if let Some(left) = self.own_due_in(pace, now) {
            return Wanted::Wait(left);
        }
        if self.batch.take(now) {
            self.used += 1;
            self.use_shared(pace, now);
            return Wanted::Go;
        }
        match self.closed_for(now) {
            Some(left) => Wanted::Wait(left),
            None => Wanted::AskStore,
        }
    }

    /// Takes a token of this process's own.
    pub(super) fn want_own(&mut self, pace: Pace, now: Timestamp) -> Wanted {
        let taken = take(pace, self.own, 1, now);
        self.own = Some(taken.due);
        self.is_alone = true;
        taken.retry_after.map_or(Wanted::Go, Wanted::Wait)
    }

    /// Counts a token from the store as used here.
    fn use_shared(&mut self, pace: Pace, now: Timestamp) {
        self.is_alone &= self.own.is_some_and(|due| due > now);
        self.own = Some(take(pace, self.own, 1, now).due);
    }

    /// When the next token of this process's own falls due; none if one is available now.
    pub(super) fn own_due_in(&self, pace: Pace, now: Timestamp) -> Option<Duration> {
        take(pace, self.own, 0, now).retry_after
    }

    /// How many tokens to ask the store for: one at first, twice as many each time that all were used, and
    /// the number used if some lapsed. A busy process that began with one again would ask a dozen times
    /// until it has enough. After a pause a process begins with one again.
    pub(super) fn ask_for(&mut self, most: u32, now: Timestamp) -> u32 {
        let is_busy = now.since(self.asked_at) <= TOKEN_BATCH_LAPSE + TOKEN_BATCH_SPAN;
        let wanted = match self.batch.has_lapsed() {
            _ if !is_busy => 1,
            false => self.used.saturating_mul(2),
            true => self.used,
        };
        self.asked_at = now;
        wanted.clamp(1, most.max(1))
    }

    /// Takes in the store's answer to a request that was sent at `sent_at`. The caller that asked has its
    /// token however long the answer took; otherwise a slow store would take tokens that no process uses.
    /// But tokens that come late and together are used no faster than one process may use them.
    pub(super) fn answered(
        &mut self,
        taken: Taken,
        pace: Pace,
        sent_at: Timestamp,
        now: Timestamp,
    ) -> Wanted {
        self.batch = TokenBatch::new(taken.granted.saturating_sub(1), sent_at);
        self.used = taken.granted.min(1);
        self.closed_until = taken.retry_after.map(|after| now.plus(after));
        match (taken.granted, self.own_due_in(pace, now)) {
            (0, _) => self.closed_for(now).map_or(Wanted::AskStore, Wanted::Wait),
            (_, Some(left)) => Wanted::Wait(left),
            (_, None) => {
                self.use_shared(pace, now);
                Wanted::Go
            }
        }
    }

    /// Whether a token from the store is left here.
    pub(super) fn has_some(&self, now: Timestamp) -> bool {
        self.batch.has_some(now)
    }

    /// How long there is certainly no token.
    pub(super) fn closed_for(&self, now: Timestamp) -> Option<Duration> {
        self.closed_until.map(|until| until.since(now)).filter(|left| !left.is_zero())
    }

    /// Whether dropping this entry would change nothing.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let is_full = !self.is_alone || self.own.is_none_or(|due| due <= now);
        is_full && self.closed_for(now).is_none()
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::rate_limit::RateLimit;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    /// So fast that it delays no caller.
    fn fast() -> Pace {
        RateLimit::new(1_000_000, SECOND).pace()
    }

    fn taken(granted: u32, retry_after: Option<Duration>) -> Taken {
        Taken { granted, due: NOW, retry_after }
    }

    #[test]
    fn the_store_is_asked_once_for_a_handful() {
        let mut cache = TokenCache::new(NOW);
        assert_eq!(cache.want_shared(fast(), NOW), Wanted::AskStore);
        assert_eq!(cache.answered(taken(3, None), fast(), NOW, NOW), Wanted::Go);
        let wanted: Vec<_> = (0..3).map(|_| cache.want_shared(fast(), NOW)).collect();
        assert_eq!(wanted, [Wanted::Go, Wanted::Go, Wanted::AskStore]);
    }

    #[test]
    fn a_handful_grows_while_it_is_used_up_and_starts_over_when_some_of_it_lapsed() {
        let mut cache = TokenCache::new(NOW);
        let mut asked = Vec::new();
        for _ in 0..4 {
            let count = cache.ask_for(5, NOW);
            asked.push(count);
            cache.answered(taken(count, None), fast(), NOW, NOW);
            while cache.want_shared(fast(), NOW) == Wanted::Go {}
        }
        assert_eq!(asked, [1, 2, 4, 5]);
        cache.ask_for(5, NOW);
        cache.answered(taken(5, None), fast(), NOW, NOW);
        assert_eq!(cache.want_shared(fast(), NOW.plus(SECOND)), Wanted::AskStore);
        assert_eq!(cache.ask_for(5, NOW.plus(SECOND)), 1);
    }

    #[test]
    fn a_busy_process_asks_a_few_times_a_second_and_takes_less_than_twice_what_it_uses() {
        const EACH_MILLI: u32 = 80;
        let mut cache = TokenCache::new(NOW);
        let (mut asked, mut granted) = (0, 0);
        for milli in 0..10_000 {
            let now = NOW.plus(Duration::from_millis(milli));
            for _ in 0..EACH_MILLI {
                if cache.want_shared(fast(), now) == Wanted::AskStore {
                    let count = cache.ask_for(100_000, now);
                    cache.answered(taken(count, None), fast(), now, now);
                    (asked, granted) = (asked + 1, granted + count);
                }
            }
        }
        assert!(asked < 100, "the store was asked {asked} times in ten seconds");
        assert!(granted < 2 * 10_000 * EACH_MILLI, "{granted} tokens were taken");
    }

    #[test]
    fn a_caller_after_a_pause_begins_anew_and_a_store_that_does_not_answer_makes_no_caller_greedy() {
        let mut cache = TokenCache::new(NOW);
        for _ in 0..4 {
            let count = cache.ask_for(100, NOW);
            cache.answered(taken(count, None), fast(), NOW, NOW);
            while cache.want_shared(fast(), NOW) == Wanted::Go {}
        }
        assert_eq!(
            [cache.ask_for(100, NOW), cache.ask_for(100, NOW)],
            [16, 16],
            "the first request was not answered"
        );
        assert_eq!(cache.ask_for(100, NOW.plus(SECOND)), 1);
    }

    #[test]
    fn a_process_with_little_to_do_takes_hardly_more_than_it_uses() {
        for every in [250, 350, 5_000] {
            let mut cache = TokenCache::new(NOW);
            let mut granted = 0;
            for n in 0..100 {
                let now = NOW.plus(Duration::from_millis(n * every));
                if cache.want_shared(fast(), now) == Wanted::AskStore {
                    let count = cache.ask_for(100_000, now);
                    cache.answered(taken(count, None), fast(), now, now);
                    granted += count;
                }
            }
            assert!(granted <= 200, "{granted} tokens for 100 jobs, one every {every} ms");
        }
    }

    #[test]
    fn a_caller_has_its_token_however_long_the_answer_took() {
        let mut cache = TokenCache::new(NOW);
        let late = NOW.plus(SECOND);
        assert_eq!(cache.answered(taken(2, None), fast(), NOW, late), Wanted::Go);
        assert_eq!(cache.want_shared(fast(), late), Wanted::AskStore, "the other token has lapsed");
        assert_eq!(cache.answered(taken(0, Some(SECOND)), fast(), late, late), Wanted::Wait(SECOND));
    }

    #[test]
    fn a_refusal_is_remembered_until_the_next_token_is_due() {
        let mut cache = TokenCache::new(NOW);
        cache.answered(taken(0, Some(SECOND)), fast(), NOW, NOW);
        assert_eq!(cache.want_shared(fast(), NOW), Wanted::Wait(SECOND));
        assert_eq!(cache.want_shared(fast(), NOW.plus(SECOND)), Wanted::AskStore);
    }

    #[test]
    fn a_process_keeps_its_own_limit() {
        let pace = RateLimit { burst: 1, ..RateLimit::new(1, SECOND) }.pace();
        let mut cache = TokenCache::new(NOW);
        assert_eq!(cache.own_due_in(pace, NOW), None);
        assert_eq!(cache.want_own(pace, NOW), Wanted::Go);
        assert_eq!(cache.want_own(pace, NOW), Wanted::Wait(SECOND));
        assert_eq!(cache.own_due_in(pace, NOW), Some(SECOND));
        assert_eq!(cache.want_own(pace, NOW.plus(SECOND)), Wanted::Go);
    }

    #[test]
    fn a_store_that_fails_and_comes_back_gives_a_process_no_second_burst() {
        let pace = RateLimit { burst: 2, ..RateLimit::new(2, SECOND) }.pace();
        let mut cache = TokenCache::new(NOW);
        assert_eq!(cache.answered(taken(2, None), pace, NOW, NOW), Wanted::Go);
        assert_eq!(cache.want_own(pace, NOW), Wanted::Go, "the store became unavailable");
        assert_eq!(cache.want_own(pace, NOW), Wanted::Wait(SECOND / 2));
        assert_eq!(cache.want_shared(pace, NOW), Wanted::Wait(SECOND / 2), "it came back");
        assert_eq!(cache.answered(taken(2, None), pace, NOW, NOW), Wanted::Wait(SECOND / 2));
    }

    #[test]
    fn a_line_is_forgotten_only_if_nothing_is_known() {
        let pace = RateLimit::new(1, SECOND).pace();
        let mut cache = TokenCache::new(NOW);
        assert!(cache.is_idle(NOW));
        cache.answered(taken(1, None), pace, NOW, NOW);
        assert!(cache.is_idle(NOW), "the store knows of the token");
        cache.want_own(pace, NOW);
        assert!(!cache.is_idle(NOW) && cache.is_idle(NOW.plus(2 * SECOND)));
    }
}
