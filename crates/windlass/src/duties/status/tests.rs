use windlass_core::lease::Term;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::from_micros(1_000_000_000_000);

fn totals() -> DutyName {
    DutyName::parse("totals").expect("a plain name")
}

fn spec(mode: DutyMode) -> DutySpec {
    DutySpec { name: totals(), interval: SECOND * 10, mode, rotation: None }
}

/// One process among two that could do the same duty.
struct Bench {
    duty_status: DutyStatus,
    now: Moment,
    fresh: u128,
}

impl Bench {
    fn new(spec: DutySpec) -> Self {
        let worker = WorkerId::from_random(1);
        let entry = Entry { spec, at_once: true };
        let timing = LeaseTiming::default();
        let duty_status = DutyStatus::new(worker, vec![entry], timing, two(), START, Moment::ZERO);
        Self { duty_status, now: Moment::ZERO, fresh: 0 }
    }

    fn due(&mut self) -> Vec<DutyStatusEffect> {
        self.fresh += 1;
        self.duty_status.effects(self.now, TermId::from_random(self.fresh))
    }

    fn at(&mut self, seconds: u32) -> Vec<DutyStatusEffect> {
        self.now = SECOND * seconds;
        self.due()
    }

    fn take_in(&mut self, event: DutyStatusEvent) -> Vec<DutyStatusEffect> {
        self.duty_status.on(event, self.now)
    }

    /// Requests the lease, is granted it, and begins a run.
    fn lead(&mut self, metadata: LeaseMetadata) -> (LeaseFence, Vec<DutyStatusEffect>) {
        let effects = self.due();
        let [DutyStatusEffect::Take(call, request)] = effects.as_slice() else { panic!("{effects:?}") };
        let term = Term { fence: 7, id: request.id };
        assert_eq!(self.take_in(DutyStatusEvent::Taken(*call, Ok(vec![Taking::Taken(term, metadata)]))), []);
        (LeaseFence { duty: totals(), term }, self.due())
    }

    fn begin(&mut self) -> (LeaseFence, RunId) {
        let (lease, effects) = self.lead(LeaseMetadata::default());
        (lease.clone(), begun(&effects, Some(&lease)))
    }

    fn renew(
        &mut self,
        effects: &[DutyStatusEffect],
        renewed: Renewed,
    ) -> (Vec<Renewal>, Vec<DutyStatusEffect>) {
        let renew = effects.iter().find_map(|effect| match effect {
            DutyStatusEffect::Renew(call, renewals) => Some((*call, renewals.clone())),
            _ => None,
        });
        let (call, renewals) = renew.unwrap_or_else(|| panic!("expected a renewal, got {effects:?}"));
        let answers = renewals.iter().map(|renewal| (renewal.lease.clone(), renewed)).collect();
        let then = self.take_in(DutyStatusEvent::Renewed(call, Ok(answers)));
        (renewals, then)
    }
}

fn two() -> MemberCount {
    let count = windlass_core::lease::membership::DutyCount { duty: totals(), able: 2, before: 0 };
    MemberCount { live: 2, duties: vec![count] }
}

fn begun(effects: &[DutyStatusEffect], fence: Option<&LeaseFence>) -> RunId {
    match effects {
        [DutyStatusEffect::Begin(begin)] => {
            assert_eq!((&begin.duty, begin.fence.as_ref()), (&totals(), fence));
            begin.run
        }
        other => panic!("expected a run to begin, got {other:?}"),
    }
}

fn ended(run: RunId, items: u64) -> DutyStatusEvent {
    DutyStatusEvent::Ended(totals(), run, RunReport { items, ..RunReport::default() })
}

#[test]
fn a_leader_runs_the_duty_each_interval_and_notes_what_it_did_with_its_heartbeats() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (lease, run) = bench.begin();
    assert!(bench.duty_status.leads(&totals(), bench.now));
    bench.now = SECOND;
    assert_eq!(bench.take_in(ended(run, 12)), []);
    let effects = bench.at(2);
    let (renewals, then) = bench.renew(&effects, Renewed::Kept);
    let notes = renewals[0].metadata.as_ref().expect("it has run").notes();
    assert_eq!((notes.runs, notes.items, notes.errors), (1, 12, 0));
    assert_eq!((notes.last_run, notes.last_took), (Some(START.plus(SECOND)), Some(SECOND)));
    assert_eq!((notes.every, notes.stuck_after), (Some(SECOND * 10), Some(SECOND * 300)));
    assert_eq!(then, []);
    for seconds in [4, 6, 8] {
        let effects = bench.at(seconds);
        let (renewals, _) = bench.renew(&effects, Renewed::Kept);
        assert_eq!(renewals[0].metadata, None, "no new notes");
    }
    let effects = bench.at(10);
    let (_, _) = bench.renew(&effects, Renewed::Kept);
    begun(&effects[1..], Some(&lease));
}

#[test]
fn a_run_that_fails_is_counted_and_what_the_duty_keeps_goes_on_to_the_next_leader() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (_, run) = bench.begin();
    let kept: Map<_, _> = [("at".to_owned(), Value::from(5))].into_iter().collect();
    let report = RunReport { items: 3, error: Some("no luck".to_owned()), kept: Some(kept.clone()) };
    bench.take_in(DutyStatusEvent::Ended(totals(), run, report));
    let effects = bench.at(2);
    let (renewals, _) = bench.renew(&effects, Renewed::Kept);
    let metadata = renewals[0].metadata.clone().expect("it has run");
    let notes = metadata.notes();
    assert_eq!((notes.items, notes.errors, notes.last_error.as_deref()), (3, 1, Some("no luck")));

    let mut next = Bench::new(spec(DutyMode::Lease));
    next.now = SECOND * 4;
    let (lease, effects) = next.lead(metadata);
    assert_eq!(effects, [], "the interval of the last leader goes on");
    let effects = next.at(10);
    next.renew(&effects, Renewed::Kept);
    let begins = effects.iter().find_map(|effect| match effect {
        DutyStatusEffect::Begin(begin) => Some(begin.clone()),
        _ => None,
    });
    let begin = begins.unwrap_or_else(|| panic!("{effects:?}"));
    assert_eq!((begin.fence, begin.kept), (Some(lease), kept));
}

#[test]
fn a_run_that_the_last_leader_left_unfinished_is_done_again_at_once_and_its_note_is_taken_back() {
    let mut first = Bench::new(spec(DutyMode::Lease));
    first.begin();
    let effects = first.at(2);
    let (renewals, _) = first.renew(&effects, Renewed::Kept);
    let metadata = renewals[0].metadata.clone().expect("it has begun a run");
    assert_eq!(metadata.notes().running_since, Some(START));

    let mut next = Bench::new(spec(DutyMode::Lease));
    next.now = SECOND * 4;
    let (lease, effects) = next.lead(metadata);
    let run = begun(&effects, Some(&lease));
    next.take_in(ended(run, 1));
    let effects = next.at(6);
    let (renewals, _) = next.renew(&effects, Renewed::Kept);
    let notes = renewals[0].metadata.as_ref().expect("it has run").notes();
    assert_eq!((notes.runs, notes.running_since), (1, None));
}

#[test]
fn a_duty_that_keeps_too_much_has_failed_keeps_what_it_kept_and_goes_on_noting() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (lease, run) = bench.begin();
    let keeping = |value: Value| {
        let kept: Map<_, _> = [("at".to_owned(), value)].into_iter().collect();
        RunReport { items: 1, kept: Some(kept), ..RunReport::default() }
    };
    bench.take_in(DutyStatusEvent::Ended(totals(), run, keeping(Value::from(5))));
    let effects = bench.at(2);
    bench.renew(&effects, Renewed::Kept);
    for seconds in [4, 6, 8] {
        let effects = bench.at(seconds);
        bench.renew(&effects, Renewed::Kept);
    }
    let effects = bench.at(10);
    bench.renew(&effects, Renewed::Kept);
    let run = begun(&effects[1..], Some(&lease));
    bench.take_in(DutyStatusEvent::Ended(totals(), run, keeping(Value::from("x".repeat(10_000)))));
    let effects = bench.at(12);
    let (renewals, _) = bench.renew(&effects, Renewed::Kept);
    let metadata = renewals[0].metadata.clone().expect("it has run");
    let notes = metadata.notes();
    assert_eq!((notes.runs, notes.items, notes.errors, notes.running_since), (2, 2, 1, None));
    assert!(notes.last_error.is_some_and(|error| error.contains("at most 2560 bytes")));
    assert_eq!(metadata.kept()["at"], Value::from(5));
}

#[test]
fn without_an_answer_a_leader_stops_at_its_local_deadline_and_wants_no_lease_while_its_run_goes_on() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (_, run) = bench.begin();
    for seconds in 2..9 {
        bench.at(seconds);
        assert!(bench.duty_status.leads(&totals(), bench.now), "after {seconds} s");
    }
    let effects = bench.at(9);
    assert!(effects.contains(&DutyStatusEffect::StopRun(totals(), run)), "{effects:?}");
    assert!(!bench.duty_status.leads(&totals(), bench.now));
    let asks = |effects: &[DutyStatusEffect]| {
        effects.iter().any(|effect| matches!(effect, DutyStatusEffect::Take(..)))
    };
    for seconds in 10..60 {
        assert!(!asks(&bench.at(seconds)), "after {seconds} s");
    }
    bench.take_in(ended(run, 0));
    assert!(asks(&bench.at(61)), "now it could do the duty again");
}

#[test]
fn a_leader_of_which_no_run_ends_raises_an_alert_says_so_in_the_lease_and_gives_way() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (lease, run) = bench.begin();
    let mut seconds = 0;
    let effects = loop {
        seconds += 2;
        let effects = bench.at(seconds);
        if effects.iter().any(|effect| matches!(effect, DutyStatusEffect::Alert(_))) {
            break effects;
        }
        bench.renew(&effects, Renewed::Kept);
    };
    assert_eq!(seconds, 300, "five minutes, which is longer than three intervals");
    let alert = DutyStatusEffect::Alert(DutyAlert::Stuck { duty: totals(), lasting: SECOND * 300 });
    assert!(effects.contains(&alert) && effects.contains(&DutyStatusEffect::StopRun(totals(), run)));
    let given_back = effects.iter().find_map(|effect| match effect {
        DutyStatusEffect::Release(releases) => releases.first().cloned(),
        _ => None,
    });
    let given_back = given_back.expect("the leader gives way");
    assert_eq!((given_back.duty, given_back.id), (totals(), lease.term.id));
    let notes = given_back.metadata.expect("the release carries notes").notes();
    assert_eq!((notes.times_stuck, notes.last_stuck), (1, Some(START.plus(SECOND * 300))));
    assert_eq!(notes.stuck_for(START.plus(SECOND * 301)), Some(SECOND * 301), "another process sees it, too");
}

#[test]
fn a_lease_for_which_there_is_no_room_raises_an_alert_once() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let mut alerts = Vec::new();
    for seconds in 0..120 {
        for effect in bench.at(seconds) {
            if let DutyStatusEffect::Take(call, _) = effect {
                alerts.extend(bench.take_in(DutyStatusEvent::Taken(call, Ok(vec![Taking::NoRoom]))));
            }
        }
    }
    let [DutyStatusEffect::Alert(alert)] = &alerts[..] else { panic!("expected one alert, got {alerts:?}") };
    assert!(matches!(alert, DutyAlert::NoRoom { .. }) && *alert.duty() == totals(), "{alert:?}");
}

#[test]
fn who_is_asked_to_step_down_stops_its_run_and_gives_the_lease_back() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (lease, run) = bench.begin();
    let effects = bench.at(2);
    let (_, then) = bench.renew(&effects, Renewed::GiveWay);
    assert!(then.contains(&DutyStatusEffect::StopRun(totals(), run)), "{then:?}");
    let releases = |effect: &DutyStatusEffect| matches!(effect, DutyStatusEffect::Release(of) if of[0].id == lease.term.id);
    assert!(then.iter().any(releases), "{then:?}");
}

#[test]
fn a_process_that_goes_on_under_another_identity_gives_back_what_it_led_under_the_old_one() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (lease, run) = bench.begin();
    let heartbeat_answer = |worker| DutyStatusEvent::HeartbeatAnswer {
        worker: WorkerId::from_random(worker),
        members: two(),
        store_now: START,
    };
    assert_eq!(bench.take_in(heartbeat_answer(1)), [], "the identity is unchanged");
    let effects = bench.take_in(heartbeat_answer(2));
    assert!(effects.contains(&DutyStatusEffect::StopRun(totals(), run)), "{effects:?}");
    let gives_back = |effect: &DutyStatusEffect| matches!(effect, DutyStatusEffect::Release(releases) if releases[0].id == lease.term.id);
    assert!(effects.iter().any(gives_back), "{effects:?}");
    assert!(!bench.duty_status.leads(&totals(), bench.now));
}

#[test]
fn a_stop_gives_everything_back_at_once_and_begins_nothing_more() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (lease, run) = bench.begin();
    let effects = bench.take_in(DutyStatusEvent::Stop);
    assert_eq!(effects[0], DutyStatusEffect::StopRun(totals(), run));
    let DutyStatusEffect::Release(releases) = &effects[1] else { panic!("{effects:?}") };
    assert_eq!((&releases[0].duty, releases[0].id), (&totals(), lease.term.id));
    bench.take_in(ended(run, 0));
    assert!(!bench.duty_status.is_running());
    for seconds in 1..60 {
        assert_eq!(bench.at(seconds), []);
    }
}

#[test]
fn what_a_run_has_done_so_far_goes_with_a_lease_that_is_given_back_and_the_run_is_done_again() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (_, run) = bench.begin();
    let kept: Map<_, _> = [("at".to_owned(), Value::from(5))].into_iter().collect();
    for items in [1, 4] {
        let so_far = RunReport { items, error: Some("one of them".to_owned()), kept: Some(kept.clone()) };
        assert_eq!(bench.take_in(DutyStatusEvent::UnderWay(totals(), run, so_far)), []);
    }
    let effects = bench.take_in(DutyStatusEvent::Stop);
    let DutyStatusEffect::Release(releases) = &effects[1] else { panic!("{effects:?}") };
    let metadata = releases[0].metadata.clone().expect("it has run");
    let notes = metadata.notes();
    assert_eq!((notes.runs, notes.items, notes.errors), (0, 4, 1), "the run has not ended");
    assert_eq!((notes.running_since, notes.last_error.as_deref()), (Some(START), Some("one of them")));
    assert_eq!(metadata.kept(), Map::new(), "the work that the value stands for may not be done");

    let mut next = Bench::new(spec(DutyMode::Lease));
    let (lease, effects) = next.lead(metadata);
    begun(&effects, Some(&lease));
}

#[test]
fn who_is_asked_to_step_down_gives_back_what_its_run_has_done_and_a_run_that_ends_is_counted_once() {
    let mut bench = Bench::new(spec(DutyMode::Lease));
    let (_, first) = bench.begin();
    let so_far =
        |run, items| DutyStatusEvent::UnderWay(totals(), run, RunReport { items, ..RunReport::default() });
    let renewed = |bench: &mut Bench, seconds| {
        let effects = bench.at(seconds);
        bench.renew(&effects, Renewed::Kept).0[0].metadata.as_ref().map(LeaseMetadata::notes)
    };
    bench.take_in(so_far(first, 2));
    let notes = renewed(&mut bench, 2).expect("it has done something");
    assert_eq!((notes.items, notes.runs, notes.running_since), (2, 0, Some(START)), "while it goes on");
    bench.take_in(so_far(first, 2));
    assert_eq!(renewed(&mut bench, 4), None, "nothing new");
    bench.take_in(ended(first, 3));
    bench.take_in(so_far(first, 3));
    assert_eq!(renewed(&mut bench, 6).expect("it has run").items, 3, "each is counted once");
    renewed(&mut bench, 8);
    let effects = bench.at(10);
    let DutyStatusEffect::Begin(begin) = &effects[1] else {
        panic!("expected the next run, got {effects:?}")
    };
    bench.take_in(so_far(begin.run, 4));
    let (_, then) = bench.renew(&effects, Renewed::GiveWay);
    let released = then.iter().find_map(|effect| match effect {
        DutyStatusEffect::Release(releases) => releases[0].metadata.clone(),
        _ => None,
    });
    assert_eq!(released.expect("the leader gives way").notes().items, 7);
}

#[test]
fn what_every_worker_does_asks_no_store_and_has_no_fence() {
    for mode in [DutyMode::EveryWorker, DutyMode::WorkStealing] {
        let mut bench = Bench::new(spec(mode));
        let run = begun(&bench.due(), None);
        assert_eq!(bench.at(10), [], "one run at a time");
        bench.take_in(ended(run, 0));
        begun(&bench.due(), None);
    }
}

#[test]
fn what_is_done_under_a_lock_begins_when_the_session_has_it_and_stops_when_it_has_not() {
    let mut bench = Bench::new(spec(DutyMode::AdvisoryLock));
    let lock = |effects: &[DutyStatusEffect]| match effects {
        [.., DutyStatusEffect::Lock(call, request)] => {
            assert_eq!(request.duties, [totals()]);
            *call
        }
        other => panic!("expected a request for a lock, got {other:?}"),
    };
    let call = lock(&bench.due());
    assert_eq!(bench.take_in(DutyStatusEvent::Locked(call, Ok(vec![true]))), []);
    let run = begun(&bench.due(), None);
    let call = lock(&bench.at(2));
    let effects = bench.take_in(DutyStatusEvent::Locked(call, Ok(vec![false])));
    assert_eq!(effects, [DutyStatusEffect::StopRun(totals(), run)]);
    assert!(!bench.duty_status.leads(&totals(), bench.now));
}
