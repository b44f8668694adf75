use std::time::Duration;

use serde_json::{Map, json};
use windlass_core::engine::Engine;
use windlass_core::lease::{
    DutyNotes, LeaseFence, LeaseMetadata, LeaseRequest, Leases, Renewal, Taking, TermId,
};
use windlass_core::names::DutyName;
use windlass_core::worker::{WorkerCard, WorkerId};

use crate::exit::Code;
use crate::testing::Shell;

const SECOND: Duration = Duration::from_secs(1);

fn rescue() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

async fn take(shell: &Shell, worker: u128) -> LeaseFence {
    let request = LeaseRequest {
        worker: WorkerId::from_random(worker << 100),
        id: TermId::from_random(worker),
        duties: vec![(rescue(), SECOND * 10)],
    };
    match shell.engine.take_leases(&request).await.unwrap().remove(0) {
        Taking::Taken(term, _) => LeaseFence { duty: rescue(), term },
        other => panic!("expected a free lease, got {other:?}"),
    }
}

async fn note(shell: &Shell, lease: LeaseFence, notes: &DutyNotes) {
    let metadata = Some(LeaseMetadata::of(notes, &Map::new()).unwrap());
    shell.engine.renew_leases(&[Renewal { lease, metadata }]).await.unwrap();
}

#[tokio::test]
async fn a_fresh_store_knows_no_duty() {
    let shell = Shell::new();
    assert_eq!(shell.ok("lease list --json").await.json(), json!([]));
    assert_eq!(shell.run("lease show rescue", "").await.code, Code::NotFound);
    assert_eq!(shell.run("lease step-down rescue", "").await.code, Code::NotFound);
}

#[tokio::test]
async fn who_leads_since_when_and_what_it_did_is_shown() {
    let shell = Shell::new();
    let lease = take(&shell, 7).await;
    let mut notes = DutyNotes { every: Some(SECOND * 5), ..DutyNotes::default() };
    let now = windlass_core::clock::Clock::now(&*shell.clock);
    notes.ended(Ok(12), SECOND, now);
    notes.ended(Err("no luck"), SECOND * 2, now);
    shell.clock.advance(SECOND * 3);
    note(&shell, lease.clone(), &notes).await;
    shell.clock.advance(SECOND);
    let shown = shell.ok("lease show rescue --json").await.json();
    assert_eq!((&shown["duty"], &shown["fence"]), (&json!("rescue"), &json!(lease.term.fence)));
    assert_eq!(shown["leader"], json!(WorkerId::from_random(7 << 100).to_string()));
    assert_eq!((&shown["heartbeat_age_ms"], &shown["takeovers"]), (&json!(1_000), &json!(0)));
    assert_eq!((&shown["runs"], &shown["items"], &shown["errors"]), (&json!(2), &json!(12), &json!(1)));
    assert_eq!((&shown["last_took_ms"], &shown["longest_ms"]), (&json!(2_000), &json!(2_000)));
    assert_eq!(shown["last_error"], "no luck");
    assert_eq!(shell.ok("lease list --json").await.json()[0], shown);
    let table = shell.ok("lease list").await.out;
    assert!(table.contains("rescue") && table.contains("4s ago") && table.contains("12"), "{table}");
}

#[tokio::test]
async fn a_leader_is_shown_with_its_host_and_process_and_a_lease_with_its_term() {
    let shell = Shell::new();
    let lease = take(&shell, 7).await;
    assert_eq!(
        shell.ok("lease show rescue --json").await.json()["leader_host"],
        json!(null),
        "the worker is unknown"
    );
    let card = WorkerCard {
        id: WorkerId::from_random(7 << 100),
        host: "harbour".to_owned(),
        pid: 4711,
        version: String::new(),
        queues: Vec::new(),
        types: Vec::new(),
        duties: vec![rescue()],
        slots: 1,
        lease: SECOND * 30,
    };
    shell.engine.register(card).await.unwrap();
    let list = shell.ok("lease list").await.out;
    assert!(list.contains("(harbour, pid 4711)"), "{list}");
    let shown = shell.ok("lease show rescue").await.out;
    assert!(shown.contains(&lease.term.id.to_string()) && shown.contains("harbour"), "{shown}");
    let shown = shell.ok("lease show rescue --json").await.json();
    assert_eq!((&shown["leader_host"], &shown["leader_pid"]), (&json!("harbour"), &json!(4711)));
}

#[tokio::test]
async fn a_run_that_lasts_is_shown_as_one_that_goes_on() {
    let shell = Shell::new();
    let lease = take(&shell, 7).await;
    let mut notes = DutyNotes::default();
    notes.began(windlass_core::clock::Clock::now(&*shell.clock));
    note(&shell, lease, &notes).await;
    shell.clock.advance(SECOND * 4);
    let table = shell.ok("lease list").await.out;
    assert!(table.contains("running for 4s"), "{table}");
}

#[tokio::test]
async fn a_run_that_its_leader_left_unfinished_is_not_shown_as_one_of_the_next_leader() {
    let shell = Shell::new();
    let lease = take(&shell, 7).await;
    let mut notes = DutyNotes::default();
    notes.began(windlass_core::clock::Clock::now(&*shell.clock));
    note(&shell, lease, &notes).await;
    shell.clock.advance(SECOND * 3_600);
    for next in [None, Some(8)] {
        if let Some(next) = next {
            take(&shell, next).await;
        }
        assert!(!shell.ok("lease list").await.out.contains("running for"), "{next:?} leads");
        let shown = shell.ok("lease show rescue --json").await.json();
        assert_eq!(shown["running_since"], json!(null), "{next:?} leads");
    }
}

#[tokio::test]
async fn a_lease_that_ran_out_has_no_leader_and_the_next_one_took_it_over() {
    let shell = Shell::new();
    take(&shell, 7).await;
    shell.clock.advance(SECOND * 10);
    assert_eq!(shell.ok("lease show rescue --json").await.json()["leader"], json!(null));
    assert!(shell.ok("lease list").await.out.contains("no process"));
    assert_eq!(shell.run("lease step-down rescue", "").await.code, Code::Refused);
    take(&shell, 8).await;
    assert_eq!(shell.ok("lease show rescue --json").await.json()["takeovers"], json!(1));
}

#[tokio::test]
async fn a_leader_that_is_stuck_is_told_of_also_if_it_says_nothing_itself() {
    let shell = Shell::new();
    let lease = take(&shell, 7).await;
    let mut notes = DutyNotes { stuck_after: Some(SECOND * 300), ..DutyNotes::default() };
    notes.began(windlass_core::clock::Clock::now(&*shell.clock));
    note(&shell, lease.clone(), &notes).await;
    for _ in 0..70 {
        shell.clock.advance(SECOND * 5);
        shell.engine.renew_leases(&[Renewal { lease: lease.clone(), metadata: None }]).await.unwrap();
    }
    assert!(shell.ok("lease list").await.out.contains("stuck for 5m 50s"));
    assert_eq!(shell.ok("lease show rescue --json").await.json()["stuck_for_ms"], json!(350_000));
    shell.clock.advance(SECOND * 20);
    let list = shell.ok("lease list").await.out;
    assert!(
        !list.contains("stuck for") && list.contains("no process"),
        "a worker that no longer leads is not stuck: {list}"
    );
    assert_eq!(shell.ok("lease show rescue --json").await.json()["stuck_for_ms"], json!(null));
}

#[tokio::test]
async fn a_leader_is_asked_to_step_down() {
    let shell = Shell::new();
    take(&shell, 7).await;
    let done = shell.ok("lease step-down rescue --json").await.json();
    assert_eq!(done, json!({ "duty": "rescue", "asked": true }));
    assert_eq!(shell.ok("lease show rescue --json").await.json()["asked_to_step_down"], json!(true));
    assert!(shell.ok("lease list").await.out.contains("asked to step down"));
    assert_eq!(shell.ok("lease step-down rescue --json").await.json(), done, "asking again is no error");
    assert!(shell.ok("lease step-down rescue").await.out.contains("was already asked"));
}
