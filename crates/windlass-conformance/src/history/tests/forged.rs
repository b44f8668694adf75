//! Forged histories: each contains one fault, which must be found.

use super::*;

#[test]
fn a_job_that_was_acknowledged_and_is_gone_is_lost() {
    Tale::put_in().must_be_flagged_as(&["lost"]);
}

#[test]
fn a_job_that_ran_and_is_gone_without_an_accepted_end_is_lost() {
    Tale::put_in().start("a", "w1").end("a", Outcome::Done).lost("a").must_be_flagged_as(&["lost"]);
}

#[test]
fn a_job_that_still_waits_after_the_drain_is_unfinished() {
    Tale::put_in().stored(JobState::Ready, Counters::default()).must_be_flagged_as(&["unfinished"]);
}

#[test]
fn a_job_that_runs_for_ever_under_no_worker_is_unfinished() {
    let counters = Counters { attempts: 1, ..Counters::default() };
    Tale::put_in().start("a", "w1").stored(JobState::Running, counters).must_be_flagged_as(&["unfinished"]);
}

#[test]
fn a_job_that_ran_though_no_producer_enqueued_it_is_unexpected() {
    Tale::default().run("a", Outcome::Done).must_be_flagged_as(&["unexpected"]);
}

#[test]
fn a_job_that_ran_though_it_was_refused_is_unexpected() {
    let refused = Tale::default().invoke().tell(Event::Refused { uid: uid() });
    refused.run("a", Outcome::Done).must_be_flagged_as(&["unexpected"]);
}

#[test]
fn a_job_that_is_stored_under_two_numbers_is_stored_twice() {
    let twin = Event::Final {
        uid: uid(),
        job: JobId(2),
        job_state: JobState::Succeeded,
        counters: Counters { attempts: 1, ..Counters::default() },
    };
    Tale::put_in().run("a", Outcome::Done).succeeded(1).tell(twin).must_be_flagged_as(&["stored twice"]);
}

#[test]
fn two_accepted_ends_are_one_too_many() {
    let both = Tale::put_in().start("a", "w1").kill("w1").start("b", "w2");
    let both = both.end("a", Outcome::Done).end("b", Outcome::Done).applied("b").applied("a");
    let counters = Counters { attempts: 2, crashes: 1, ..Counters::default() };
    both.stored(JobState::Succeeded, counters).must_be_flagged_as(&["ended twice", "stale accepted"]);
}

#[test]
fn a_job_that_runs_again_after_its_end_ended_twice() {
    let again = Tale::put_in().run("a", Outcome::Done).kill("w1").start("b", "w2");
    let again = again.end("b", Outcome::Done).lost("b").succeeded(1);
    let verdict = again.verdict();
    assert_eq!(verdict.ended_twice.len(), 1, "{verdict}");
}

#[test]
fn an_accepted_end_that_the_store_forgot_is_found() {
    let counters = Counters { attempts: 1, ..Counters::default() };
    let forgotten = Tale::put_in().run("a", Outcome::Done).stored(JobState::Ready, counters);
    forgotten.must_be_flagged_as(&["unfinished", "forgotten ends"]);
}

#[test]
fn an_accepted_success_that_the_store_calls_dead_is_found() {
    let counters = Counters { attempts: 1, ..Counters::default() };
    Tale::put_in()
        .run("a", Outcome::Done)
        .stored(JobState::Dead, counters)
        .must_be_flagged_as(&["forgotten ends"]);
}

#[test]
fn a_stale_end_that_was_accepted_is_found_even_if_it_is_the_only_one() {
    let stale = Tale::put_in().start("a", "w1").tell(Event::fault(FaultKind::Freeze, "w1"));
    let stale = stale.start("b", "w2").end("a", Outcome::Done).applied("a");
    stale.end("b", Outcome::Done).lost("b").succeeded(2).must_be_flagged_as(&["stale accepted"]);
}

#[test]
fn a_stale_retry_that_was_accepted_is_found() {
    let stale = Tale::put_in().start("a", "w1").kill("w1").start("b", "w2");
    let stale = stale.end("a", Outcome::Failed).applied("a").end("b", Outcome::Done).applied("b");
    stale.succeeded(2).must_be_flagged_as(&["stale accepted"]);
}

#[test]
fn a_second_attempt_without_a_fault_is_unexplained() {
    let twice = Tale::put_in().start("a", "w1").start("b", "w2").end("b", Outcome::Done).applied("b");
    twice.end("a", Outcome::Done).lost("a").succeeded(2).must_be_flagged_as(&["unexplained attempts"]);
}

#[test]
fn a_fault_that_hit_another_worker_explains_nothing() {
    let twice = Tale::put_in().start("a", "w1").kill("w3").start("b", "w2");
    let twice = twice.end("b", Outcome::Done).applied("b");
    twice.succeeded(2).must_be_flagged_as(&["unexplained attempts"]);
}

#[test]
fn a_fault_that_was_over_before_explains_nothing() {
    let twice = Tale::put_in().kill("w1").start("a", "w1").start("b", "w2");
    let twice = twice.end("b", Outcome::Done).applied("b");
    twice.succeeded(2).must_be_flagged_as(&["unexplained attempts"]);
}

#[test]
fn a_failure_explains_one_more_attempt_and_not_two() {
    let thrice = Tale::put_in().run("a", Outcome::Failed).start("b", "w1").start("c", "w2");
    let thrice = thrice.end("c", Outcome::Done).applied("c");
    thrice.succeeded(3).must_be_flagged_as(&["unexplained attempts"]);
}

#[test]
fn a_handler_that_is_called_twice_under_one_claim_is_unexplained() {
    let twice = Tale::put_in().start("a", "w1").run("a", Outcome::Done);
    twice.succeeded(1).must_be_flagged_as(&["unexplained attempts"]);
}

#[test]
fn a_start_before_the_due_time_is_early() {
    let due = Some(Timestamp::from_micros(60_000_000));
    let tale = Tale::default().tell(Event::Invoke { uid: uid(), due });
    let tale = tale.tell(Event::Acknowledged { uid: uid(), job: JobId(1) });
    tale.run("a", Outcome::Done).succeeded(1).must_be_flagged_as(&["started early"]);
}

#[test]
fn a_success_after_an_accepted_cancel_is_found() {
    let tale = Tale::put_in().start("a", "w1").tell(Event::CancelAccepted { uid: uid() });
    tale.end("a", Outcome::Done).applied("a").succeeded(1).must_be_flagged_as(&["cancel ignored"]);
}

#[test]
fn a_kill_that_was_not_counted_is_found() {
    let tale = Tale::put_in().start("a", "w1").kill("w1").run("b", Outcome::Done);
    tale.succeeded(2).must_be_flagged_as(&["uncounted crashes"]);
}

#[test]
fn a_job_that_crashed_more_often_than_allowed_is_found() {
    let counters = Counters { attempts: 4, crashes: 4, ..Counters::default() };
    Tale::put_in().stored(JobState::Dead, counters).must_be_flagged_as(&["over limits"]);
}

#[test]
fn a_job_that_failed_more_often_than_allowed_is_found() {
    let counters = Counters { attempts: 6, failures: 6, ..Counters::default() };
    let tale = Tale::put_in().stored(JobState::Dead, counters);
    let verdict = check(&tale.0, &Rules { failures_max: Some(5), ..Rules::default() });
    assert_eq!(verdict.over_limits.len(), 1, "{verdict}");
}
