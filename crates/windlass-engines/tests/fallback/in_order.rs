//! Several processes on one spool: no process overtakes the jobs that another is moving.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_core::enqueue::RequestId;
use windlass_core::job::JobId;
use windlass_core::spool::{BatchMost, Following, LeftOut, Spool};
use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass_engines::memory::MemoryEngine;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use crate::primary::{declaration, job, memory, payloads, quick, request, sqlite, until, until_replayed};
use crate::shaky::{Fault, Life, Seen};

const HOUR: Duration = Duration::from_secs(3_600);

fn on_disk(folder: &Path, clock: &Arc<ManualClock>) -> Arc<dyn Spool> {
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::for_spool() };
    Arc::new(SqliteEngine::open(folder.join("spool.db"), options).unwrap())
}

/// Opens a process on this spool that sees the primary through this life.
async fn process(primary: &Arc<dyn Engine>, spool: &Arc<dyn Spool>, life: Arc<Life>) -> FallbackEngine {
    let seen = Arc::new(Seen { store: Arc::clone(primary), life });
    let connect: Connect = Arc::new(move || {
        let seen = Arc::clone(&seen);
        Box::pin(async move { Ok(seen as Arc<dyn Engine>) })
    });
    // One check is enough; all later changes of the counter are rounds.
    let options = FallbackOptions { check_every: HOUR, ..quick() };
    FallbackEngine::open("primary", connect, Arc::clone(spool), options).await.unwrap()
}

/// Waits until a process has scanned its spool this number of times.
async fn rounds(engine: &FallbackEngine, count: u64) {
    engine.heard().wait_for(|heard| *heard > count).await.expect("the engine is kept");
}

async fn new_primary(clock: &Arc<ManualClock>) -> Arc<dyn Engine> {
    let primary: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(clock.clone()));
    primary.declare(declaration()).await.unwrap();
    primary
}

#[tokio::test]
async fn a_process_does_not_overtake_the_batch_that_another_is_moving() {
    let (clock, folder) = (Arc::new(ManualClock::default()), tempfile::tempdir().unwrap());
    let shared: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()));
    let on_disk = || on_disk(folder.path(), &clock);
    for [one, other] in [[Arc::clone(&shared), shared], [on_disk(), on_disk()]] {
        let primary = new_primary(&clock).await;
        one.declare(declaration()).await.unwrap();
        one.enqueue(request((0..450).map(job).collect())).await.unwrap();
        let held = Life::new(Some((0, Fault::Held)));
        let first = process(&primary, &one, Arc::clone(&held)).await;
        while held.steps() == 0 {
            tokio::task::yield_now().await;
        }
        let second = process(&primary, &other, Life::new(None)).await;
        rounds(&second, 2).await;
        assert_eq!(payloads(&*primary).await, [0; 0], "the first batch is still being moved");
        held.late.notify_one();
        until_replayed(&first).await;
        assert_eq!(payloads(&*primary).await, (0..450).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_dead_process_keeps_the_others_until_its_batch_is_taken_over_and_no_longer() {
    let (clock, folder) = (Arc::new(ManualClock::default()), tempfile::tempdir().unwrap());
    let shared: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()));
    for spool in [shared, on_disk(folder.path(), &clock)] {
        let primary = new_primary(&clock).await;
        spool.declare(declaration()).await.unwrap();
        spool.enqueue(request((0..450).map(job).collect())).await.unwrap();
        let dead = RequestId::from_random(fastrand::u128(..));
        let most = BatchMost { jobs: 200, bytes: 1_000_000 };
        spool.stage(dead, most, &LeftOut::default(), &Following::default()).await.unwrap().unwrap();
        let engine = process(&primary, &spool, Life::new(None)).await;
        rounds(&engine, 2).await;
        assert_eq!(payloads(&*primary).await, [0; 0]);
        clock.advance(quick().adopt_after);
        until_replayed(&engine).await;
        assert_eq!(payloads(&*primary).await, (0..450).collect::<Vec<_>>());
    }
}

/// The process is alone, so it need not wait until it would adopt its own batch.
#[tokio::test]
async fn a_process_does_not_wait_for_a_batch_of_its_own() {
    let clock = Arc::new(ManualClock::default());
    let primary = new_primary(&clock).await;
    let spool: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool_with_clock(clock.clone()));
    spool.declare(declaration()).await.unwrap();
    spool.enqueue(request((0..450).map(job).collect())).await.unwrap();
    let engine = process(&primary, &spool, Life::new(Some((0, Fault::Unanswered)))).await;
    until(&engine, "all jobs have moved", async || payloads(&*primary).await.len() == 450).await;
    assert_eq!(payloads(&*primary).await, (0..450).collect::<Vec<_>>());
}

#[tokio::test]
async fn jobs_that_are_older_than_the_batch_of_another_process_may_go() {
    let folder = tempfile::tempdir().unwrap();
    for spool in [memory(), sqlite(folder.path())] {
        spool.declare(declaration()).await.unwrap();
        let answers = spool.enqueue(request((0..5).map(job).collect())).await.unwrap();
        let ids: Vec<_> = answers.iter().map(|answer| answer.job().unwrap()).collect();
        let name = RequestId::from_random;
        let stage = async |request, jobs, but: &[JobId], ours: &[u128]| {
            let but = LeftOut { jobs: but.to_vec(), ..LeftOut::default() };
            let ours = ours.iter().copied().map(name).collect();
            let following = Following { ours, adopt_after: HOUR };
            let most = BatchMost { jobs, bytes: 1_000 };
            let staged = spool.stage(name(request), most, &but, &following).await.unwrap();
            staged.map(|staged| staged.ids)
        };
        assert_eq!(stage(1, 1, &ids[..1], &[]).await.as_deref(), Some(&ids[1..2]));
        assert_eq!(stage(2, 9, &[], &[]).await.as_deref(), Some(&ids[..1]), "only older jobs");
        assert_eq!(stage(3, 9, &[], &[]).await, None, "the other jobs would overtake both");
        assert_eq!(stage(4, 9, &[], &[1]).await, None, "and one job is still ahead");
        assert_eq!(
            stage(5, 1, &ids[..1], &[1]).await.as_deref(),
            Some(&ids[2..3]),
            "the job ahead was passed"
        );
        assert_eq!(stage(6, 9, &[], &[1, 2, 5]).await.as_deref(), Some(&ids[3..]));
    }
}
