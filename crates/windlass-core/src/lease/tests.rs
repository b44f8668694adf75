use super::*;
use crate::limits::{DUTY_EXPIRY, LEASE_KEPT, LEASE_METADATA_BYTES_MAX};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn duty() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

fn request(bits: u128) -> LeaseRequest {
    let duties = vec![(duty(), DUTY_EXPIRY)];
    LeaseRequest { worker: WorkerId::from_random(bits), id: TermId::from_random(bits), duties }
}

fn take(before: Option<&StoredLease>, bits: u128, now: Timestamp) -> (Taking, Option<StoredLease>) {
    StoredLease::take(before, &duty(), DUTY_EXPIRY, &request(bits), now)
}

fn taken(before: Option<&StoredLease>, bits: u128, now: Timestamp) -> StoredLease {
    let (taking, after) = take(before, bits, now);
    let lease = after.expect("it is free");
    assert_eq!(taking, Taking::Taken(lease.term, lease.metadata.clone()));
    lease
}

fn giving_back(lease: &StoredLease) -> LeaseRelease {
    LeaseRelease { duty: duty(), id: lease.term.id, metadata: None }
}

fn heartbeat(lease: &StoredLease) -> Renewal {
    Renewal { lease: LeaseFence { duty: duty(), term: lease.term }, metadata: None }
}

#[test]
fn a_lease_is_taken_over_when_its_heartbeat_is_as_old_as_its_expiry_and_not_before() {
    let first = taken(None, 1, NOW);
    let just_before = NOW.plus(DUTY_EXPIRY).minus(Duration::from_micros(1));
    let held = Taking::Held { by: WorkerId::from_random(1), expires_in: Duration::from_micros(1) };
    assert_eq!(take(Some(&first), 2, just_before), (held, None));
    let second = taken(Some(&first), 2, NOW.plus(DUTY_EXPIRY));
    assert!(second.term.fence > first.term.fence);
    assert_eq!((second.takeovers, second.holder), (1, Some(WorkerId::from_random(2))));
}

#[test]
fn a_term_that_expired_is_over_even_if_no_process_took_the_lease() {
    let lease = taken(None, 1, NOW);
    let late = NOW.plus(DUTY_EXPIRY);
    assert_eq!(StoredLease::renew(Some(&lease), &heartbeat(&lease), late), (Renewed::Lost, None));
    assert!(!lease.holds(lease.term, late));
    assert_eq!(take(Some(&lease), 1, late), (Taking::Over, None), "and its request does not begin it again");
}

#[test]
fn a_request_that_arrives_after_its_term_was_given_back_takes_nothing() {
    let lease = taken(None, 1, NOW);
    let (_, free) = StoredLease::release(Some(&lease), &giving_back(&lease));
    assert_eq!(take(free.as_ref(), 1, NOW), (Taking::Over, None));
}

#[test]
fn a_store_whose_clock_steps_back_lets_a_dead_holder_be_missed_one_expiry_later() {
    let lease = taken(None, 1, NOW.plus(SECOND * 3600));
    let (taking, seen) = take(Some(&lease), 2, NOW);
    assert_eq!(taking, Taking::Held { by: WorkerId::from_random(1), expires_in: DUTY_EXPIRY });
    let seen = seen.expect("its heartbeat is set to now");
    assert_eq!(seen, StoredLease { heartbeat: NOW, ..lease });
    taken(Some(&seen), 2, NOW.plus(DUTY_EXPIRY));
}

#[test]
fn a_store_whose_clock_steps_back_keeps_a_holder_that_lives() {
    let lease = taken(None, 1, NOW.plus(SECOND * 3600));
    let (renewed, after) = StoredLease::renew(Some(&lease), &heartbeat(&lease), NOW);
    assert_eq!((renewed, after.map(|lease| lease.heartbeat)), (Renewed::Kept, Some(NOW)));
}

#[test]
fn fences_rise_even_if_the_store_forgot_its_last_terms_or_its_clock_stepped_back() {
    let first = taken(None, 1, NOW);
    let forgotten = taken(Some(&first), 2, NOW.plus(DUTY_EXPIRY));
    let second = taken(Some(&first), 3, NOW.plus(DUTY_EXPIRY + SECOND));
    assert!(second.term.fence > forgotten.term.fence);
    let (_, free) = StoredLease::release(Some(&second), &giving_back(&second));
    assert!(taken(free.as_ref(), 4, NOW).term.fence > second.term.fence);
}

#[test]
fn requests_that_no_engine_should_be_asked_are_refused_with_the_reason() {
    let with = |duties: Vec<(DutyName, Duration)>| LeaseRequest { duties, ..request(1) }.check();
    let many = (0..=DUTIES_PER_CALL_MAX).map(|n| (DutyName::parse(&format!("d{n}")).unwrap(), DUTY_EXPIRY));
    for (duties, reason) in [
        (vec![(duty(), Duration::ZERO)], "expire after"),
        (vec![(duty(), DUTY_EXPIRY_MAX + SECOND)], "expire after"),
        (vec![(duty(), DUTY_EXPIRY); 2], "twice"),
        (many.collect(), "at most 100 duties"),
    ] {
        let error = with(duties).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(with(vec![]).is_ok());
}

#[test]
fn what_a_holder_kept_comes_with_the_next_term_also_if_it_was_given_back() {
    let lease = taken(None, 1, NOW);
    let kept = LeaseMetadata::parse(r#"{"runs":7}"#).unwrap();
    let release = LeaseRelease { metadata: Some(kept.clone()), ..giving_back(&lease) };
    let (released, free) = StoredLease::release(Some(&lease), &release);
    assert_eq!(released, Released::Done);
    let (taking, _) = take(free.as_ref(), 2, NOW);
    assert!(matches!(taking, Taking::Taken(_, metadata) if metadata == kept));
}

#[test]
fn a_lease_is_forgettable_once_it_had_no_holder_for_a_month() {
    let lease = taken(None, 1, NOW);
    assert!(!lease.is_forgettable(NOW.plus(LEASE_KEPT - SECOND)));
    assert!(lease.is_forgettable(NOW.plus(LEASE_KEPT)));
    let alive = StoredLease { heartbeat: NOW.plus(LEASE_KEPT), ..lease };
    assert!(!alive.is_forgettable(NOW.plus(LEASE_KEPT)));
}

#[test]
fn metadata_that_were_damaged_count_as_empty() {
    for damaged in ["", "7", "{\"a\":", &"x".repeat(LEASE_METADATA_BYTES_MAX + 1)] {
        assert_eq!(LeaseMetadata::from_store(damaged), LeaseMetadata::default());
    }
    assert_eq!(LeaseMetadata::from_store(r#"{ "a": 1 }"#).as_str(), r#"{ "a": 1 }"#);
}

#[test]
fn metadata_are_an_object_of_some_kilobytes() {
    assert!(LeaseMetadata::parse(r#"{"items": 7, "name": "ü"}"#).is_ok());
    for odd in ["", "7", "[]", "{", "{} {}"] {
        assert!(LeaseMetadata::parse(odd).is_err(), "{odd}");
    }
    let big = format!(r#"{{"a":"{}"}}"#, "x".repeat(LEASE_METADATA_BYTES_MAX));
    assert!(LeaseMetadata::parse(&big).unwrap_err().to_string().contains("at most 4096 bytes"));
}

#[test]
fn what_a_holder_notes_is_read_again_by_the_next_one() {
    let mut notes = DutyNotes { runs: 7, every: Some(SECOND * 90), ..DutyNotes::default() };
    notes.ended(Ok(12), Duration::from_micros(1_500), NOW);
    notes.ended(Err(&"\u{1}ü\"".repeat(1_000)), SECOND * 2, NOW);
    notes.began(NOW);
    let kept = serde_json::json!({ "cursor": 17, "text": "x".repeat(2_500) });
    let metadata = LeaseMetadata::of(&notes, kept.as_object().unwrap()).unwrap();
    let read = LeaseMetadata::parse(metadata.as_str()).unwrap();
    assert_eq!((read.notes(), serde_json::Value::from(read.kept())), (notes.clone(), kept));
    assert_eq!((notes.runs, notes.items, notes.errors, notes.longest), (9, 12, 1, Some(SECOND * 2)));
    assert!(metadata.as_str().contains(r#""every":"90s""#), "{metadata:?}");
    assert_eq!(LeaseMetadata::default().notes(), DutyNotes::default());
}

#[test]
fn a_duty_that_keeps_too_much_is_told_so() {
    let kept = serde_json::json!({ "text": "x".repeat(2_560) });
    let error = LeaseMetadata::of(&DutyNotes::default(), kept.as_object().unwrap()).unwrap_err();
    assert!(error.to_string().contains("at most 2560 bytes"), "{error}");
}

#[test]
fn an_unfinished_run_is_done_again_at_once_and_later_each_time_after_that() {
    let mut notes = DutyNotes { every: Some(SECOND * 3_600), ..DutyNotes::default() };
    assert_eq!(notes.taken_over(NOW), None, "nothing is known");
    notes.ended(Ok(1), SECOND * 2, NOW);
    assert_eq!(notes.taken_over(NOW.plus(SECOND * 8)), Some(SECOND * 3_590), "the interval goes on");
    for pause in [0, 60, 120] {
        notes.began(NOW.plus(SECOND * 3_600));
        let due_in = notes.taken_over(NOW.plus(SECOND * 3_610));
        assert_eq!((due_in, notes.running_since), (Some(SECOND * pause), None));
    }
    notes.began(NOW);
    assert_eq!(notes.taken_over(NOW.plus(SECOND * 3_595)), Some(SECOND * 5), "never later than the interval");
    notes.ended(Ok(1), SECOND, NOW);
    notes.began(NOW);
    assert_eq!(notes.taken_over(NOW.plus(SECOND)), Some(Duration::ZERO), "a run that ended resets the count");
}

#[test]
fn an_outsider_can_tell_that_a_holder_is_stuck() {
    let mut notes = DutyNotes { stuck_after: Some(SECOND * 300), ..DutyNotes::default() };
    assert_eq!(notes.stuck_for(NOW.plus(SECOND * 1_000)), None, "it does not run");
    notes.began(NOW);
    assert_eq!(notes.stuck_for(NOW.plus(SECOND * 300)), None);
    assert_eq!(notes.stuck_for(NOW.plus(SECOND * 301)), Some(SECOND * 301));
    notes.ended(Ok(0), SECOND * 302, NOW.plus(SECOND * 302));
    assert_eq!(notes.stuck_for(NOW.plus(SECOND * 1_000)), None);
}
