//! Histories without a fault, though much happens in them.

use super::*;

#[test]
fn a_job_that_runs_once_is_clean() {
    Tale::put_in().run("a", Outcome::Done).succeeded(1).must_be_clean();
}

#[test]
fn a_job_of_which_nothing_is_kept_is_clean_if_its_end_was_accepted() {
    Tale::put_in().run("a", Outcome::Done).must_be_clean();
}

#[test]
fn failures_snoozes_and_releases_explain_further_attempts() {
    let tale = Tale::put_in().run("a", Outcome::Failed).run("b", Outcome::Snoozed);
    let tale = tale.run("c", Outcome::Released).run("d", Outcome::Done);
    tale.stored(JobState::Succeeded, Counters { attempts: 4, failures: 1, crashes: 0, holds: 1 })
        .must_be_clean();
}

#[test]
fn a_kill_explains_another_attempt() {
    let tale = Tale::put_in().start("a", "w1").kill("w1").start("b", "w2");
    let counters = Counters { attempts: 2, crashes: 1, ..Counters::default() };
    tale.end("b", Outcome::Done).applied("b").stored(JobState::Succeeded, counters).must_be_clean();
}

#[test]
fn a_frozen_worker_whose_late_end_is_refused_is_clean() {
    let until = Some(Timestamp::from_micros(9_000_000));
    let freeze = Event::Fault { kind: FaultKind::Freeze, target: Some("w1".to_owned()), until };
    let tale = Tale::put_in().tell(freeze).start("a", "w1").start("b", "w2");
    let tale = tale.end("b", Outcome::Done).applied("b").end("a", Outcome::Done).lost("a");
    let counters = Counters { attempts: 2, crashes: 1, ..Counters::default() };
    tale.stored(JobState::Succeeded, counters).must_be_clean();
}

#[test]
fn an_outage_of_the_store_explains_attempts_of_every_worker() {
    let outage = Event::Fault { kind: FaultKind::StoreAway, target: None, until: None };
    let tale = Tale::put_in().start("a", "w1").tell(outage).start("b", "w2");
    tale.end("b", Outcome::Done).applied("b").succeeded(2).must_be_clean();
}

#[test]
fn a_repeated_settle_whose_first_answer_was_lost_is_not_stale() {
    let unknown = Event::Settled { uid: uid(), token: "a".to_owned(), answer: SettleAnswer::Unknown };
    let tale = Tale::put_in().start("a", "w1").end("a", Outcome::Failed).tell(unknown).start("b", "w2");
    let tale = tale.applied("a").end("b", Outcome::Done).applied("b");
    tale.stored(JobState::Succeeded, Counters { attempts: 2, failures: 1, ..Counters::default() })
        .must_be_clean();
}

#[test]
fn a_job_without_an_answer_that_turns_up_is_recovered() {
    let tale = Tale::default().invoke().tell(Event::Unknown { uid: uid() }).run("a", Outcome::Done);
    let verdict = tale.succeeded(1).verdict();
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!(verdict.recovered.len(), 1);
}

#[test]
fn a_job_whose_producer_died_before_the_answer_may_be_there_or_not() {
    Tale::default().invoke().must_be_clean();
    Tale::default().invoke().run("a", Outcome::Done).succeeded(1).must_be_clean();
}

#[test]
fn a_refused_job_that_never_turned_up_is_clean() {
    Tale::default().invoke().tell(Event::Refused { uid: uid() }).must_be_clean();
}

#[test]
fn a_dead_letter_that_a_person_started_over_may_end_again() {
    let tale = Tale::put_in().run("a", Outcome::Dead).tell(Event::StartedOver { uid: uid() });
    tale.run("b", Outcome::Done).succeeded(1).must_be_clean();
}

#[test]
fn an_accepted_cancel_wins_over_a_success() {
    let tale = Tale::put_in().start("a", "w1").tell(Event::CancelAccepted { uid: uid() });
    let counters = Counters { attempts: 1, ..Counters::default() };
    tale.end("a", Outcome::Done).applied("a").stored(JobState::Cancelled, counters).must_be_clean();
}

#[test]
fn a_job_buried_by_its_third_crash_is_clean() {
    let tale = Tale::put_in().start("a", "w1").kill("w1").start("b", "w2").kill("w2");
    let counters = Counters { attempts: 3, crashes: 3, ..Counters::default() };
    tale.start("c", "w3").kill("w3").stored(JobState::Dead, counters).must_be_clean();
}

#[test]
fn what_still_waits_is_no_fault_if_nothing_was_drained() {
    let tale = Tale::put_in().stored(JobState::Scheduled, Counters::default());
    let verdict = check(&tale.0, &Rules { drained: false, ..Rules::default() });
    assert!(verdict.is_clean(), "{verdict}");
}
