//! Several engines on one file, as in several processes.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use windlass_core::engine::{Admin, Engine, Hint, RescueRequest};
use windlass_core::job::JobState;
use windlass_core::lease_watch::{LeaseWatch, Own, Suspicion, WatchPace};
use windlass_core::limits::CRASHES_MAX;
use windlass_core::worker::{Heartbeat, Liveness, ProofOfLife, WorkerId};
use windlass_engines::sqlite::enqueue_in;

use super::{Hints, TestStore, WORKER, card, claim, claim_request, declare, enqueue, new_job, ready_engine};

/// The longest wait, sufficient for a slow machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[tokio::test]
async fn each_commit_of_another_engine_is_noticed() {
    let place = TestStore::new();
    let here = ready_engine(&place).await;
    let there = place.open();
    let hints = Hints::of(&here);
    for _ in 0..20 {
        enqueue(&there, 1).await;
        assert_eq!(hints.within(WAIT_MAX).expect("a hint arrives"), Hint::Any);
    }
}

#[tokio::test]
async fn the_users_own_transaction_wakes_workers_too() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let hints = Hints::of(&engine);
    let mut conn = place.connect();
    let tx = conn.transaction().unwrap();
    enqueue_in(&tx, vec![new_job()]).unwrap();
    assert_eq!(hints.within(Duration::ZERO), Err(RecvTimeoutError::Timeout), "not before the commit");
    tx.commit().unwrap();
    assert_eq!(hints.within(WAIT_MAX).expect("a hint arrives"), Hint::Any);
}

#[tokio::test]
async fn an_engines_own_commits_are_not_taken_for_anothers() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let hints = Hints::of(&engine);
    for _ in 0..50 {
        enqueue(&engine, 1).await;
    }
    // A commit of another process comes last, so that all commits before it were certainly noticed.
    enqueue(&place.open(), 1).await;
    let mut own = 0;
    loop {
        match hints.within(WAIT_MAX).expect("the commit of the other process is noticed") {
            Hint::Queue(_) => own += 1,
            Hint::Any => break,
            Hint::Cancel(_) => panic!("no caller cancelled a job"),
            Hint::Lease(_) => panic!("no process held a lease"),
            Hint::Trigger => panic!("there is no completion trigger"),
            Hint::Quiet(_) => panic!("only a store that polls sends this hint"),
        }
    }
    assert_eq!(own, 50);
}

#[tokio::test]
async fn what_another_engine_declared_or_paused_is_known_at_once() {
    let place = TestStore::new();
    let (here, there) = (place.open(), place.open());
    declare(&there).await;
    assert_eq!(enqueue(&here, 1).await.len(), 1);
    there.register(card(WORKER)).await.unwrap();
    here.pause(&super::queue(), None, None).await.unwrap();
    assert!(claim(&there, 1).await.is_empty());
    here.resume(&super::queue()).await.unwrap();
    assert_eq!(claim(&there, 1).await.len(), 1);
}

#[tokio::test]
async fn two_engines_never_claim_the_same_job() {
    let place = TestStore::new();
    let here = ready_engine(&place).await;
    let there = place.open();
    let other = WorkerId::from_random(2);
    there.register(card(other)).await.unwrap();
    let ids = enqueue(&here, 200).await;
    let mut claimed = Vec::new();
    while claimed.len() < ids.len() {
        let requests = (here.claim(claim_request(WORKER, 7)), there.claim(claim_request(other, 7)));
        let (a, b) = tokio::join!(requests.0, requests.1);
        for answer in [a.unwrap(), b.unwrap()] {
            let windlass_core::claim::ClaimAnswer::Claimed { jobs, .. } = answer else { panic!("both live") };
            claimed.extend(jobs.into_iter().map(|job| job.job.id));
        }
    }
    claimed.sort_unstable();
    assert_eq!(claimed, ids);
}

#[tokio::test]
async fn a_worker_whose_process_is_gone_is_rescued_at_once() {
    let place = TestStore::new();
    let here = ready_engine(&place).await;
    let there = place.open();
    enqueue(&here, 1).await;
    let id = claim(&here, 1).await[0].job.id;

    let seen = there.workers().await.unwrap();
    assert_eq!(seen[0].proof, ProofOfLife::Exists);
    assert_eq!(here.workers().await.unwrap()[0].proof, ProofOfLife::Exists);
    let accused = Suspicion { worker: WORKER, beats: seen[0].beats };
    let rescue = |silent| RescueRequest { silent, crashes_max: CRASHES_MAX, limit: 100 };
    there.rescue(rescue(vec![accused])).await.unwrap();
    assert_eq!(
        there.job(id).await.unwrap().unwrap().job_state(),
        JobState::Running,
        "a held lock protects it"
    );

    drop(here);
    let seen = there.workers().await.unwrap();
    assert_eq!(seen[0].proof, ProofOfLife::Gone);
    assert!(!seen[0].expired, "its lease still holds");
    let second = Duration::from_secs(1);
    let mut watch = LeaseWatch::new(WatchPace { heartbeat: second, sweep: second });
    let silent = watch.observe(Own { worker: WorkerId::from_random(1), failed: 0 }, &seen, Duration::ZERO);
    let rescued = there.rescue(rescue(silent)).await.unwrap();
    assert_eq!(rescued.returned, [id]);
    let lease = Duration::from_secs(30);
    assert_eq!(there.extend(Heartbeat { worker: WORKER, lease, idle: false }).await.unwrap(), Liveness::Dead);
    assert!(there.workers().await.unwrap().is_empty());
}

#[tokio::test]
async fn lock_files_go_with_their_workers() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let folder = place.folder.path().join("jobs.db.workers");
    let files = || std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files(), 1);
    engine.retire(WORKER).await.unwrap();
    assert_eq!(files(), 0);
    assert!(engine.register(card(WORKER)).await.is_ok());
    assert!(engine.register(card(WORKER)).await.is_err(), "a known id is refused");
    assert_eq!(engine.workers().await.unwrap()[0].proof, ProofOfLife::Exists, "and its lock is still held");
}
