use super::*;
use crate::limits::{DUTY_EXPIRY, LEASE_METADATA_BYTES_MAX};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn duty() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

fn request(bits: u128) -> LeaseRequest {
    let duties = vec![(duty(), DUTY_EXPIRY)];
    LeaseRequest { worker: WorkerId::from_random(bits), id: TermId::from_random(bits), duties }
}

fn take(before: Option<&LeaseRecord>, bits: u128, now: Timestamp) -> (Taking, Option<LeaseRecord>) {
    LeaseRecord::take(before, &duty(), DUTY_EXPIRY, &request(bits), now)
}

fn taken(before: Option<&LeaseRecord>, bits: u128, now: Timestamp) -> LeaseRecord {
    let (taking, after) = take(before, bits, now);
    let lease = after.expect("it is free");
    assert_eq!(taking, Taking::Taken(lease.term));
    lease
}

fn heartbeat(lease: &LeaseRecord) -> Renewal {
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
fn a_term_that_expired_is_over_even_if_nobody_took_the_lease() {
    let lease = taken(None, 1, NOW);
    let late = NOW.plus(DUTY_EXPIRY);
    assert_eq!(LeaseRecord::renew(Some(&lease), &heartbeat(&lease), late), (Renewed::Lost, None));
    assert!(!lease.holds(lease.term, late));
    assert_eq!(take(Some(&lease), 1, late), (Taking::Over, None), "and its request does not begin it again");
}

#[test]
fn a_request_that_arrives_after_its_term_was_given_back_takes_nothing() {
    let lease = taken(None, 1, NOW);
    let (_, free) = LeaseRecord::release(Some(&lease), lease.term);
    assert_eq!(take(free.as_ref(), 1, NOW), (Taking::Over, None));
}

#[test]
fn a_store_whose_clock_steps_back_lets_a_dead_holder_be_missed_one_expiry_later() {
    let lease = taken(None, 1, NOW.plus(SECOND * 3600));
    let (taking, seen) = take(Some(&lease), 2, NOW);
    assert_eq!(taking, Taking::Held { by: WorkerId::from_random(1), expires_in: DUTY_EXPIRY });
    let seen = seen.expect("its heartbeat is brought to now");
    assert_eq!(seen, LeaseRecord { heartbeat: NOW, ..lease });
    taken(Some(&seen), 2, NOW.plus(DUTY_EXPIRY));
}

#[test]
fn a_store_whose_clock_steps_back_keeps_a_holder_that_lives() {
    let lease = taken(None, 1, NOW.plus(SECOND * 3600));
    let (renewed, after) = LeaseRecord::renew(Some(&lease), &heartbeat(&lease), NOW);
    assert_eq!((renewed, after.map(|lease| lease.heartbeat)), (Renewed::Kept, Some(NOW)));
}

#[test]
fn fences_rise_even_if_the_store_forgot_its_last_terms_or_its_clock_stepped_back() {
    let first = taken(None, 1, NOW);
    let forgotten = taken(Some(&first), 2, NOW.plus(DUTY_EXPIRY));
    let second = taken(Some(&first), 3, NOW.plus(DUTY_EXPIRY + SECOND));
    assert!(second.term.fence > forgotten.term.fence);
    let (_, free) = LeaseRecord::release(Some(&second), second.term);
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
    let notes = DutyNotes {
        runs: u64::MAX,
        items: 7,
        last_run: Some(NOW),
        longest: Some(Duration::MAX),
        ..DutyNotes::default()
    };
    let metadata = notes.to_metadata();
    assert_eq!(LeaseMetadata::parse(metadata.as_str()).unwrap().notes(), notes);
    assert_eq!(LeaseMetadata::default().notes(), DutyNotes::default());
}
