use std::sync::Mutex;

use windlass_core::clock::Timestamp;
use windlass_core::names::TypeName;
use windlass_core::schedule::Schedule;
use windlass_core::schedules::{JobTemplate, Origin, ScheduleSpec, StoredSchedule, acts};

use super::*;

/// One firing for each of this number of schedules.
fn firings(count: usize) -> Vec<Firing> {
    let stored_at = Timestamp::parse("2027-06-01T09:00:00Z").unwrap();
    let firing = |number: usize| {
        let name = ScheduleName::parse(&format!("s{number:02}")).unwrap();
        let job = JobTemplate::new(TypeName::parse("work").unwrap());
        let spec = ScheduleSpec::new(name, Schedule::parse("every 1m").unwrap(), job);
        let record = *acts::declare(&spec, Origin::Code, None, stored_at).unwrap().to.unwrap();
        let stored = StoredSchedule { version: 1, last_job: None, record };
        fire(&stored, stored_at.plus(Duration::from_secs(60))).unwrap()
    };
    (0..count).map(firing).collect()
}

#[tokio::test]
async fn one_that_a_store_refuses_does_not_keep_the_others() {
    let asked = Mutex::new(0);
    let answered = in_halves(firings(32), |part| {
        *asked.lock().unwrap() += 1;
        let answer = match part.iter().any(|firing| firing.change.name.as_str() == "s13") {
            true => Err(EngineError::Refused("it is wrong".to_owned())),
            false => Ok(part.len()),
        };
        std::future::ready((part, answer))
    });
    let (jobs, refused) = answered.await.unwrap();
    let [(firing, why)] = &refused[..] else { panic!("expected one, got {refused:?}") };
    assert_eq!((jobs, firing.change.name.as_str(), why.as_str()), (31, "s13", "it is wrong"));
    assert_eq!(*asked.lock().unwrap(), 11, "the whole, and both halves five times");
}

#[tokio::test]
async fn a_store_that_is_away_ends_the_run() {
    let away = || EngineError::Unavailable { why: "the store is away".to_owned() };
    let answered = in_halves(firings(4), |part| std::future::ready((part, Err(away()))));
    assert!(answered.await.is_err());
}
