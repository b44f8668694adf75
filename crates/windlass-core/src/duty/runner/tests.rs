mod cluster;

use super::*;
use crate::duty::DutyModes;
use crate::lease::{Term, TermId};
use crate::names::DutyName;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u32) -> Moment {
    SECOND * seconds
}

fn prune() -> DutyName {
    DutyName::parse("prune").unwrap()
}

fn spec(mode: DutyMode) -> DutySpec {
    DutySpec { name: prune(), interval: SECOND * 10, mode, rotation: None }
}

fn fence(number: i64) -> LeaseFence {
    LeaseFence { duty: prune(), term: Term { fence: number, id: TermId::from_random(1) } }
}

fn leader() -> DutyRunner {
    let mut runner = DutyRunner::new(spec(DutyMode::Lease), 0, Moment::ZERO);
    runner.gained(Some(fence(7)), None, Moment::ZERO);
    runner
}

/// Returns the run that begins, which must be the only effect.
fn begins(runner: &mut DutyRunner, now: Moment) -> RunId {
    match runner.effects(now).as_slice() {
        [DutyEffect::Begin { run, .. }] => *run,
        other => panic!("expected a run, got {other:?}"),
    }
}

#[test]
fn a_duty_of_every_worker_begins_at_its_seat_and_again_each_interval() {
    for mode in [DutyMode::EveryWorker, DutyMode::WorkStealing] {
        let mut runner = DutyRunner::new(spec(mode), 1 << 15, Moment::ZERO);
        assert_eq!(runner.wake_at(), at(5), "{mode}");
        assert_eq!(runner.effects(at(4)), []);
        let run = begins(&mut runner, at(5));
        runner.ended(run, at(6));
        assert_eq!(runner.wake_at(), at(15), "counted from the start of the last run");
    }
}

#[test]
fn a_daily_duty_of_every_worker_first_runs_within_a_minute_of_each_start() {
    let daily = DutySpec { interval: SECOND * 86_400, ..spec(DutyMode::EveryWorker) };
    for (ring_position, first) in [(0, at(0)), (1 << 15, at(30))] {
        assert_eq!(DutyRunner::new(daily.clone(), ring_position, Moment::ZERO).wake_at(), first);
    }
    assert!(DutyRunner::new(daily, u16::MAX, Moment::ZERO).wake_at() < at(60));
}

#[test]
fn a_duty_with_a_leader_is_not_done_before_this_process_leads() {
    for mode in [DutyMode::Lease, DutyMode::AdvisoryLock] {
        let mut runner = DutyRunner::new(spec(mode), 0, Moment::ZERO);
        assert_eq!((runner.effects(at(100)), runner.wake_at()), (vec![], Moment::MAX), "{mode}");
        runner.gained(None, None, at(100));
        begins(&mut runner, at(100));
    }
}

#[test]
fn a_run_gets_the_fence_of_its_term() {
    let begin = DutyEffect::Begin { run: RunId(1), fence: Some(fence(7)) };
    assert_eq!(leader().effects(Moment::ZERO), [begin]);
}

#[test]
fn a_new_leader_goes_on_with_the_interval_of_the_last_one() {
    let mut runner = DutyRunner::new(spec(DutyMode::Lease), 0, Moment::ZERO);
    runner.gained(Some(fence(7)), Some(SECOND * 6), at(100));
    assert_eq!(runner.wake_at(), at(106));
    runner.gained(Some(fence(8)), Some(Duration::ZERO), at(100));
    assert_eq!(runner.wake_at(), at(100), "it is overdue");
}

#[test]
fn a_run_that_takes_longer_than_the_interval_is_followed_by_one_and_not_by_all_that_were_left_out() {
    let mut runner = leader();
    let run = begins(&mut runner, Moment::ZERO);
    assert_eq!(runner.effects(at(35)), [], "one at a time");
    runner.ended(run, at(35));
    let run = begins(&mut runner, at(35));
    runner.ended(run, at(36));
    assert_eq!(runner.wake_at(), at(45));
}

#[test]
fn who_leads_no_longer_stops_its_run_once_and_begins_none_until_that_has_ended() {
    let mut runner = leader();
    let run = begins(&mut runner, Moment::ZERO);
    assert_eq!(runner.lost(), Some(DutyEffect::Stop(run)));
    assert_eq!(runner.lost(), None);
    runner.gained(Some(fence(9)), None, at(20));
    assert_eq!(runner.effects(at(20)), [], "the old run has not ended");
    runner.ended(run, at(21));
    begins(&mut runner, at(21));
}

#[test]
fn a_run_that_was_stopped_in_the_middle_is_begun_again_when_the_right_comes_back() {
    let mut runner = leader();
    let run = begins(&mut runner, Moment::ZERO);
    runner.lost();
    runner.ended(run, at(1));
    runner.gained(Some(fence(7)), None, at(2));
    begins(&mut runner, at(2));
}

#[test]
fn a_run_that_is_stopped_in_the_middle_again_and_again_comes_later_each_time_until_one_ends() {
    let mut runner = leader();
    let mut waits = Vec::new();
    for lost_at in [0, 100, 300] {
        let run = begins(&mut runner, at(lost_at));
        runner.lost();
        runner.ended(run, at(lost_at));
        runner.gained(Some(fence(7)), None, at(lost_at));
        waits.push(runner.wake_at().saturating_sub(at(lost_at)));
    }
    let interval = Duration::from_secs(10);
    assert_eq!(waits, [Duration::ZERO, interval, interval], "never later than an interval");
    let run = begins(&mut runner, at(400));
    runner.ended(run, at(401));
    let run = begins(&mut runner, at(500));
    runner.lost();
    runner.ended(run, at(501));
    runner.gained(Some(fence(8)), None, at(502));
    begins(&mut runner, at(502));
}

#[test]
fn an_end_of_a_run_from_before_ends_no_other() {
    let mut runner = leader();
    let first = begins(&mut runner, Moment::ZERO);
    runner.ended(first, at(1));
    begins(&mut runner, at(10));
    runner.ended(first, at(11));
    assert_eq!(runner.effects(at(30)), [], "the second one runs");
}

#[test]
fn a_leader_whose_run_does_not_end_says_so_once_and_gives_way() {
    let mut runner = leader();
    begins(&mut runner, Moment::ZERO);
    assert_eq!(runner.wake_at(), at(300), "five minutes, or three intervals if they are longer");
    assert_eq!(runner.effects(at(300)), [DutyEffect::Stuck(SECOND * 300), DutyEffect::GiveWay]);
    assert_eq!((runner.effects(at(301)), runner.wake_at()), (vec![], Moment::MAX));
    let slow = DutySpec { interval: SECOND * 3_600, ..spec(DutyMode::Lease) };
    assert_eq!(slow.stuck_after(), SECOND * 3 * 3_600);
}

#[test]
fn without_a_leader_a_run_that_does_not_end_is_told_and_nothing_is_given_back() {
    let mut runner = DutyRunner::new(spec(DutyMode::EveryWorker), 0, Moment::ZERO);
    let run = begins(&mut runner, Moment::ZERO);
    assert_eq!(runner.effects(at(300)), [DutyEffect::Stuck(SECOND * 300)]);
    runner.ended(run, at(301));
    begins(&mut runner, at(301));
    assert_eq!(runner.wake_at(), at(601), "the process checks for a stuck run again");
}

#[test]
fn a_long_wait_for_the_next_run_is_not_being_stuck() {
    let daily = DutySpec { interval: SECOND * 86_400, ..spec(DutyMode::Lease) };
    let mut runner = DutyRunner::new(daily, 0, Moment::ZERO);
    runner.gained(Some(fence(7)), Some(SECOND * 86_399), Moment::ZERO);
    assert_eq!(runner.effects(at(4 * 3_600)), []);
    assert_eq!(runner.wake_at(), at(86_399));
}

#[test]
fn a_leader_gives_way_between_two_runs_if_leaders_are_to_take_turns() {
    let turns = DutySpec { rotation: Some(SECOND * 60), ..spec(DutyMode::Lease) };
    let mut runner = DutyRunner::new(turns, 0, Moment::ZERO);
    runner.gained(Some(fence(7)), Some(SECOND * 10), Moment::ZERO);
    let run = (1..=5).fold(None, |last: Option<RunId>, turn| {
        last.into_iter().for_each(|run| runner.ended(run, at(turn * 10)));
        Some(begins(&mut runner, at(turn * 10)))
    });
    assert_eq!(runner.effects(at(61)), [], "not in the middle of a run");
    runner.ended(run.unwrap(), at(62));
    assert_eq!(runner.effects(at(62)), [DutyEffect::GiveWay]);
    assert_eq!(
        (runner.effects(at(63)), runner.wake_at()),
        (vec![], Moment::MAX),
        "it waits until it has lost the lease"
    );
}

#[test]
fn what_cannot_work_or_not_on_this_engine_is_refused() {
    let (none, all) = (DutyModes::default(), DutyModes { advisory_lock: true, work_stealing: true });
    for mode in [DutyMode::AdvisoryLock, DutyMode::WorkStealing] {
        assert!(spec(mode).check(none).unwrap_err().to_string().contains("use `lease`"), "{mode}");
        assert!(spec(mode).check(all).is_ok(), "{mode}");
    }
    for mode in [DutyMode::EveryWorker, DutyMode::Lease] {
        assert!(spec(mode).check(none).is_ok(), "{mode}");
    }
    for interval in [Duration::ZERO, Duration::from_millis(99), Duration::MAX] {
        assert!(DutySpec { interval, ..spec(DutyMode::Lease) }.check(all).is_err(), "{interval:?}");
    }
    for (mode, rotation) in [(DutyMode::EveryWorker, SECOND * 60), (DutyMode::Lease, SECOND)] {
        assert!(DutySpec { rotation: Some(rotation), ..spec(mode) }.check(all).is_err(), "{mode}");
    }
}
