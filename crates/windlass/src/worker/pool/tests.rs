use windlass_core::claim::{NextDue, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, Job, JobId};
use windlass_core::names::QueueName;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;

use super::*;

mod flow;
mod locked;
mod prefetch;
mod suspects;

const SECOND: Duration = Duration::from_secs(1);
const NOTHING: NextDue = NextDue { more_due: false, next_due_in: None, suspect_due: false };
const MORE: NextDue = NextDue { more_due: true, ..NOTHING };

/// A pool of three slots, with the test as its store and its handlers.
struct Bench {
    pool: Pool,
    now: Moment,
    next_job: i64,
    /// The last claim.
    asked: Option<ClaimToken>,
    /// Batches that were not answered yet, oldest first.
    sent: VecDeque<BatchNumber>,
}

impl Bench {
    fn new() -> Self {
        Self::sharing(&Quarantine::default(), 1)
    }

    fn sharing(quarantine: &Quarantine, first_job: i64) -> Self {
        let name = TypeName::parse("test").unwrap();
        let settings = PoolSettings {
            scope: Scope {
                queues: vec![QueueName::parse("default").unwrap()],
                types: vec![name.clone()],
                poll_interval: SECOND * 10,
            },
            concurrency: 3,
            policies: HashMap::from([(name, RetryPolicy::default())]),
        };
        let mut token = 0;
        let tokens = Box::new(move || {
            token += 1;
            ClaimToken::from_random(token)
        });
        let pool = Pool::new(settings, WorkerId::from_random(1), quarantine.shared(), tokens);
        Self { pool, now: Moment::ZERO, next_job: first_job, asked: None, sent: VecDeque::new() }
    }

    fn effects(&mut self) -> Vec<Effect> {
        let effects = self.pool.effects(self.now);
        let asked = effects.iter().rev().find_map(|effect| match effect {
            Effect::Claim(request) => Some(request.token),
            _ => None,
        });
        self.asked = asked.or(self.asked);
        self.sent.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Settle(number, _) => Some(*number),
            _ => None,
        }));
        effects
    }

    /// Answers the oldest batch that is in flight.
    fn settle_answered(&mut self, answer: Result<Vec<Settled>, CallFailure>) -> Vec<Effect> {
        let number = self.sent.pop_front().expect("a batch is in flight");
        self.on(Event::SettleAnswered(number, answer))
    }

    fn on(&mut self, event: Event) -> Vec<Effect> {
        self.pool.on(event, self.now);
        self.effects()
    }

    /// The only claim among the effects.
    fn claim(&mut self) -> ClaimRequest {
        let mut claims = claims(self.effects());
        assert_eq!(claims.len(), 1, "one claim is in flight at a time");
        claims.remove(0)
    }

    fn jobs(&mut self, request: &ClaimRequest, count: u32, crashes: u32) -> Vec<Claimed> {
        (0..count)
            .map(|_| {
                self.next_job += 1;
                claimed(self.next_job, request.token, crashes)
            })
            .collect()
    }

    fn answer(&mut self, request: &ClaimRequest, count: u32, peek: NextDue) -> Vec<Effect> {
        let jobs = self.jobs(request, count, 0);
        self.on(Event::ClaimAnswered(request.token, Ok(ClaimAnswer::Claimed { jobs, peek })))
    }

    /// Answers the last claim.
    fn answered(&mut self, answer: Result<ClaimAnswer, CallFailure>) -> Vec<Effect> {
        let token = self.asked.expect("a claim was sent");
        self.on(Event::ClaimAnswered(token, answer))
    }

    fn end(&mut self, fence: Fence, ran_for: Duration) -> Vec<Effect> {
        let report = AttemptReport { ran_for, ..AttemptReport::default() };
        self.on(Event::Ended { fence, outcome: AttemptOutcome::Done(None), report })
    }
}

pub(in crate::worker) fn claimed(id: i64, token: ClaimToken, crashes: u32) -> Claimed {
    let job = Job {
        id: JobId(id),
        job_type: TypeName::parse("test").unwrap(),
        queue: QueueName::parse("default").unwrap(),
        payload: Payload::default(),
        priority: Priority::NORMAL,
        label: None,
        enqueued_at: Timestamp::EPOCH,
        due: Timestamp::EPOCH,
        expires_at: None,
        key: None,
        ordering_key: None,
        fairness_key: None,
        correlation: None,
        tags: vec![],
        group: None,
        retry: None,
        provenance: Default::default(),
        timeout: None,
        counters: Counters { attempts: 1, crashes, ..Counters::default() },
        progress: None,
    };
    Claimed { job, token, waited: Duration::ZERO, age: Duration::ZERO, boosted: false }
}

fn claims(effects: Vec<Effect>) -> Vec<ClaimRequest> {
    effects
        .into_iter()
        .filter_map(|effect| if let Effect::Claim(request) = effect { Some(request) } else { None })
        .collect()
}

fn starts(effects: &[Effect]) -> Vec<Fence> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Start(claimed) = effect { Some(claimed.fence()) } else { None })
        .collect()
}

fn settled(effects: &[Effect]) -> Vec<Settlement> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Settle(_, batch) = effect { Some(batch.clone()) } else { None })
        .flatten()
        .collect()
}

/// The fences of these ends: the other fields may change from one sending to the next.
fn fences(batch: &[Settlement]) -> Vec<Fence> {
    batch.iter().map(|settlement| settlement.fence).collect()
}

#[test]
fn a_fresh_pool_claims_as_much_as_it_has_slots() {
    assert_eq!(Bench::new().claim().limit, 3);
}

#[test]
fn while_a_claim_is_under_way_there_is_no_second() {
    let mut bench = Bench::new();
    bench.claim();
    assert!(claims(bench.on(Event::Hint)).is_empty());
}

#[test]
fn a_hint_during_a_claim_is_not_lost() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.on(Event::Hint);
    let effects = bench.answer(&request, 0, NOTHING);
    assert_eq!(claims(effects).len(), 1);
}

#[test]
fn an_idle_pool_sleeps_until_the_next_job_is_due() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, NextDue { next_due_in: Some(SECOND * 4), ..NOTHING });
    assert_eq!(bench.pool.wake_at(), SECOND * 4);
    bench.now = SECOND * 4;
    assert_eq!(bench.claim().limit, 3);
}

#[test]
fn an_idle_pool_looks_at_its_poll_interval_at_the_latest() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, NOTHING);
    assert_eq!(bench.pool.wake_at(), SECOND * 10);
}

#[test]
fn a_look_of_the_engine_stands_in_for_a_poll_but_not_for_what_falls_due() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, NextDue { next_due_in: Some(SECOND * 14), ..NOTHING });
    bench.now = SECOND * 9;
    assert!(claims(bench.on(Event::Quiet)).is_empty());
    assert_eq!(bench.pool.wake_at(), SECOND * 14, "the poll would have come at ten seconds");
    bench.now = SECOND * 13;
    assert!(claims(bench.on(Event::Quiet)).is_empty());
    bench.now = SECOND * 14;
    assert_eq!(claims(bench.effects()).len(), 1);
}

#[test]
fn a_pool_polls_when_the_engine_looks_no_more() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, NOTHING);
    bench.now = SECOND * 9;
    bench.on(Event::Quiet);
    assert_eq!(bench.pool.wake_at(), SECOND * 19);
    bench.now = SECOND * 19;
    assert_eq!(claims(bench.effects()).len(), 1);
}

#[test]
fn a_slot_that_frees_is_filled_at_once_while_more_is_due() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 3, MORE);
    let running = starts(&effects);
    assert_eq!(running.len(), 3);
    assert!(claims(effects).is_empty(), "no slot is free and the pace is unknown");
    let effects = bench.end(running[0], SECOND);
    assert_eq!(claims(effects)[0].limit, 1, "a slow job is not prefetched");
}

#[test]
fn what_ends_together_is_settled_together() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 3, NOTHING);
    for fence in starts(&effects) {
        let report = AttemptReport::default();
        bench.pool.on(Event::Ended { fence, outcome: AttemptOutcome::Done(None), report }, bench.now);
    }
    let effects = bench.effects();
    assert_eq!(settled(&effects).len(), 3);
    assert_eq!(bench.pool.held(), 3, "unsettled jobs still count");
    bench.settle_answered(Ok(vec![Settled::Applied; 3]));
    assert_eq!(bench.pool.held(), 0);
}

#[test]
fn a_batch_that_failed_is_sent_again_and_nothing_starts_meanwhile() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 3, MORE);
    let effects = bench.end(starts(&effects)[0], SECOND);
    let (batch, claim) = (settled(&effects), claims(effects).remove(0));
    bench.settle_answered(Err(CallFailure::Unknown));
    assert!(starts(&bench.answer(&claim, 1, MORE)).is_empty(), "nothing new while the store accepts no ends");
    bench.now = bench.pool.wake_at();
    assert_eq!(fences(&settled(&bench.effects())), fences(&batch));
    let effects = bench.settle_answered(Ok(vec![Settled::Applied]));
    assert_eq!(starts(&effects).len(), 1);
}

#[test]
fn a_claim_whose_answer_got_lost_is_asked_again_with_its_token() {
    let mut bench = Bench::new();
    let request = bench.claim();
    assert!(bench.answered(Err(CallFailure::Unknown)).is_empty());
    bench.now = bench.pool.wake_at();
    let again = bench.claim();
    assert_eq!((again.token, again.repeat), (request.token, true));
}

/// Loses the answer to a request and sends it again.
fn lose_and_repeat(bench: &mut Bench) -> ClaimRequest {
    bench.answered(Err(CallFailure::Unknown));
    bench.now = bench.pool.wake_at();
    let again = bench.claim();
    assert!(again.repeat);
    again
}

#[test]
fn a_repeat_that_brings_nothing_is_followed_at_once_by_a_new_request_if_something_is_due() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let again = lose_and_repeat(&mut bench);
    let next = claims(bench.answer(&again, 0, MORE)).remove(0);
    assert!(next.token != request.token && !next.repeat);
    assert_eq!(next.limit, request.limit);
}

#[test]
fn a_repeat_that_brings_nothing_beside_nothing_due_lets_the_pool_rest() {
    let mut bench = Bench::new();
    bench.claim();
    let again = lose_and_repeat(&mut bench);
    assert!(claims(bench.answer(&again, 0, NOTHING)).is_empty());
    assert_eq!(bench.pool.wake_at(), bench.now + SECOND * 10, "until the next poll");
}

#[test]
fn a_hint_that_comes_before_the_repeat_is_answered_is_not_lost() {
    let mut bench = Bench::new();
    bench.claim();
    bench.answered(Err(CallFailure::Unknown));
    bench.on(Event::Hint);
    bench.now = bench.pool.wake_at();
    let again = bench.claim();
    assert_eq!(claims(bench.answer(&again, 0, NOTHING)).len(), 1);
}

#[test]
fn a_stopping_pool_ends_after_a_repeat_that_brings_nothing() {
    let mut bench = Bench::new();
    bench.claim();
    bench.on(Event::Stop { grace: Duration::ZERO });
    let again = lose_and_repeat(&mut bench);
    assert!(claims(bench.answer(&again, 0, MORE)).is_empty());
    assert!(bench.pool.has_ended());
}

#[test]
fn a_claim_that_failed_is_followed_by_another_after_a_pause() {
    let mut bench = Bench::new();
    let request = bench.claim();
    assert!(bench.answered(Err(CallFailure::NotDone)).is_empty());
    bench.now = bench.pool.wake_at();
    assert!(bench.now > Moment::ZERO);
    let next = bench.claim();
    assert!(next.token != request.token && !next.repeat);
}

#[test]
fn stopping_gives_back_what_has_not_started_and_claims_no_more() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 5, MORE);
    assert_eq!(starts(&effects).len(), 3);
    let effects = bench.on(Event::Stop { grace: SECOND });
    let unstarted = Transition::Release { started: false };
    assert!(settled(&effects).iter().all(|settlement| settlement.transition == unstarted));
    assert_eq!(settled(&effects).len(), 2);
    assert!(claims(effects).is_empty());
}

#[test]
fn a_claim_that_is_answered_after_the_stop_is_given_back() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.on(Event::Stop { grace: SECOND });
    assert!(!bench.pool.has_ended(), "jobs may be on their way to us");
    let effects = bench.answer(&request, 2, MORE);
    assert_eq!((starts(&effects).len(), settled(&effects).len()), (0, 2));
    bench.settle_answered(Ok(vec![Settled::Applied; 2]));
    assert!(bench.pool.has_ended());
}

#[test]
fn after_the_grace_handlers_are_aborted_once() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 1, NOTHING));
    assert!(bench.on(Event::Stop { grace: SECOND }).is_empty());
    bench.now = SECOND;
    assert!(matches!(bench.effects()[..], [Effect::Abort(fence)] if fence == running[0]));
    assert!(bench.effects().is_empty());
}

#[test]
fn a_failed_claim_is_tried_again_after_the_back_off_not_at_the_next_poll() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, NOTHING);
    assert_eq!(claims(bench.on(Event::Hint)).len(), 1);
    bench.answered(Err(CallFailure::NotDone));
    assert!(bench.pool.wake_at() < SECOND);
}

#[test]
fn a_stopping_pool_wakes_to_ask_for_a_lost_claim() {
    let mut bench = Bench::new();
    bench.claim();
    bench.on(Event::Stop { grace: Duration::ZERO });
    bench.answered(Err(CallFailure::Unknown));
    assert!(!bench.pool.has_ended());
    bench.now = bench.pool.wake_at();
    assert!(bench.claim().repeat);
}

#[test]
fn a_second_stop_without_grace_aborts_at_once() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 1, NOTHING);
    bench.on(Event::Stop { grace: SECOND * 25 });
    assert!(matches!(bench.on(Event::Stop { grace: Duration::ZERO })[..], [Effect::Abort(_)]));
}

#[test]
fn a_drain_goes_on_until_nothing_is_due() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 1, MORE);
    bench.on(Event::Drain);
    bench.end(starts(&effects)[0], SECOND);
    bench.settle_answered(Ok(vec![Settled::Applied]));
    assert!(!bench.pool.has_ended());
    let before = claims(effects).remove(0);
    let after = claims(bench.answer(&before, 0, NOTHING)).remove(0);
    assert!(!bench.pool.has_ended(), "a job enqueued after that claim was sent would be left behind");
    bench.answer(&after, 0, NextDue { next_due_in: Some(SECOND), ..NOTHING });
    assert!(bench.pool.has_ended(), "future jobs stay");
}

#[test]
fn a_drain_looks_once_more_also_if_the_last_look_found_nothing() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, NOTHING);
    let again = claims(bench.on(Event::Drain)).remove(0);
    assert!(!bench.pool.has_ended());
    bench.answer(&again, 0, NOTHING);
    assert!(bench.pool.has_ended());
}

#[test]
fn a_drain_looks_once_more_after_the_last_end_which_may_have_put_something_in() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 1, NOTHING);
    let again = claims(bench.on(Event::Drain)).remove(0);
    bench.answer(&again, 0, NOTHING);
    bench.end(starts(&effects)[0], SECOND);
    let after = claims(bench.settle_answered(Ok(vec![Settled::Applied]))).remove(0);
    assert!(!bench.pool.has_ended());
    bench.answer(&after, 0, NOTHING);
    assert!(bench.pool.has_ended());
}

#[test]
fn a_worker_that_was_declared_dead_is_reported_and_goes_on_under_another_name() {
    let mut bench = Bench::new();
    bench.claim();
    assert!(matches!(bench.answered(Ok(ClaimAnswer::WorkerDead))[..], [Effect::Died]));
    bench.pool.on(Event::Reborn(WorkerId::from_random(2)), bench.now);
    bench.now += SECOND;
    assert_eq!(bench.claim().worker, WorkerId::from_random(2));
}

#[test]
fn what_was_claimed_for_a_dead_identity_is_dropped_and_not_taken_for_the_next_claims_answer() {
    let mut bench = Bench::new();
    let old = bench.claim();
    bench.pool.on(Event::Reborn(WorkerId::from_random(2)), bench.now);
    assert!(claims(bench.effects()).is_empty(), "one claim is in flight at a time, also across a death");
    let effects = bench.answer(&old, 2, NOTHING);
    assert!(starts(&effects).is_empty());
    assert_eq!(claims(effects)[0].worker, WorkerId::from_random(2));
}

#[test]
fn a_repeat_that_fails_does_not_forget_what_the_lost_claim_may_hold() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answered(Err(CallFailure::Unknown));
    for failure in [CallFailure::NotDone, CallFailure::Unknown, CallFailure::NotDone] {
        bench.now = bench.pool.wake_at();
        let again = bench.claim();
        assert_eq!((again.token, again.repeat), (request.token, true));
        bench.answered(Err(failure));
    }
    bench.now = bench.pool.wake_at();
    let again = bench.claim();
    assert_eq!(starts(&bench.answer(&again, 2, NOTHING)).len(), 2);
}

#[test]
fn a_lost_claim_is_told_and_the_slot_is_free() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 1, NOTHING));
    bench.end(running[0], SECOND);
    let effects = bench.settle_answered(Ok(vec![Settled::ClaimLost]));
    assert!(matches!(effects[..], [Effect::ClaimLost(fence)] if fence == running[0]));
    assert_eq!(bench.pool.held(), 0);
}

#[test]
fn a_settlement_that_the_store_refuses_blocks_no_other() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 3, NOTHING));
    for fence in &running {
        let error = JobError::new(ErrorKind::Failed, "odd");
        let report = AttemptReport::default();
        bench
            .pool
            .on(Event::Ended { fence: *fence, outcome: AttemptOutcome::Failed(error), report }, bench.now);
    }
    let bad = running[1];
    let (mut given_up, mut taken) = (vec![], vec![]);
    for _ in 0..100 {
        bench.now = bench.now.max(bench.pool.wake_at().min(SECOND * 3600));
        for effect in bench.effects() {
            match effect {
                Effect::Settle(number, batch) if batch.iter().any(|settlement| settlement.fence == bad) => {
                    bench.pool.on(Event::SettleAnswered(number, Err(CallFailure::Refused)), bench.now);
                }
                Effect::Settle(number, batch) => {
                    taken.extend(batch.iter().map(|settlement| settlement.fence));
                    let answer = Ok(vec![Settled::Applied; batch.len()]);
                    bench.pool.on(Event::SettleAnswered(number, answer), bench.now);
                }
                Effect::GaveUp(settlement) => given_up.push(settlement.fence),
                _ => {}
            }
        }
    }
    assert_eq!(given_up, [bad]);
    assert_eq!(taken.len(), 2);
    assert_eq!(bench.pool.held(), 0);
}

#[test]
fn a_full_pool_whose_next_look_is_due_sleeps_until_a_slot_frees() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 3, NOTHING));
    bench.now += SECOND * 60;
    assert!(bench.effects().is_empty());
    assert_eq!(bench.pool.wake_at(), Moment::MAX);
    assert_eq!(claims(bench.end(running[0], SECOND)).len(), 1, "the claim that was due is made up for");
}

#[test]
fn a_pool_that_cannot_settle_sleeps_until_it_tries_again() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 1, NOTHING));
    bench.end(running[0], SECOND);
    bench.now += SECOND * 60;
    bench.settle_answered(Err(CallFailure::NotDone));
    assert!(bench.pool.wake_at() > bench.now, "{:?}", bench.pool.wake_at());
}

#[test]
fn a_pool_whose_last_settlements_were_all_refused_goes_on() {
    let mut bench = Bench::new();
    let request = bench.claim();
    for fence in starts(&bench.answer(&request, 2, NOTHING)) {
        let report = AttemptReport::default();
        bench.pool.on(Event::Ended { fence, outcome: AttemptOutcome::Done(None), report }, bench.now);
    }
    assert_eq!(settled(&bench.effects()).len(), 2);
    for _ in 0..3 {
        bench.settle_answered(Err(CallFailure::Refused));
        bench.now += SECOND;
        bench.effects();
    }
    assert_eq!(bench.pool.held(), 0);
    assert_eq!(claims(bench.on(Event::Hint)).len(), 1);
}

#[test]
fn a_jobs_own_policy_goes_before_its_types_and_that_before_the_default() {
    let bench = Bench::new();
    let mut job = claimed(1, ClaimToken::from_random(1), 0);
    job.job.job_type = TypeName::parse("unheard-of").unwrap();
    assert_eq!(bench.pool.policy(&job), &RetryPolicy::default());
    job.job.retry = Some(RetryPolicy::Never);
    assert_eq!(bench.pool.policy(&job), &RetryPolicy::Never);
}

#[test]
fn a_pool_that_is_scaled_down_lets_what_runs_go_on_and_starts_less() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 3, MORE));
    bench.on(Event::Scale(1));
    assert_eq!(bench.pool.running(), 3);
    for fence in &running[..2] {
        assert!(claims(bench.end(*fence, SECOND)).is_empty(), "still as many as there are slots");
    }
    assert_eq!(claims(bench.end(running[2], SECOND))[0].limit, 1);
}
