use serde::{Deserialize, Serialize};

use super::*;
use crate::testing::TestWorker;
use crate::{Handlers, JobId, JobType};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Serialize, Deserialize)]
struct Mail;

impl JobType for Mail {
    const NAME: &'static str = "mail";
}

async fn send(_: Mail) {}

/// A duty as each of two leaders has it.
fn one_of_two(engine: &Arc<dyn Engine>, name: &str) -> Task {
    let coordination = Coordination { mode: DutyMode::EveryWorker, rotation: None };
    let pace = WatchPace { heartbeat: Duration::from_secs(10), sweep: Duration::from_secs(5) };
    let maintenance = Maintenance { coordination, pace, crashes_max: 3, rollups_kept: DAY * 30 };
    let all = tasks(engine, maintenance, None, &Mailbox::default());
    all.into_iter().find(|task| task.duty.name.as_str() == name).expect("the duty is built in")
}

/// The number of items that this many leaders process at once, in all.
async fn done_by(leaders: usize, engine: &Arc<dyn Engine>, name: &str) -> u64 {
    let contexts: Vec<_> = (0..leaders).map(|_| DutyContext::of_test(engine)).collect();
    let run = |context: &DutyContext| tokio::spawn((one_of_two(engine, name).duty.run)(context.clone()));
    for run in contexts.iter().map(run).collect::<Vec<_>>() {
        run.await.unwrap().unwrap();
    }
    contexts.iter().map(|context| context.report(Ok(())).items).sum()
}

/// Three jobs that are past their retention, and one that is not. From here on no worker may run: such a
/// worker prunes by itself.
async fn old_and_new() -> (TestWorker, Vec<JobId>, JobId) {
    let mut worker = TestWorker::new(Handlers::new(()).handle(send));
    let mut old = Vec::new();
    for _ in 0..3 {
        old.push(worker.client().enqueue(Mail).await.unwrap().id);
    }
    worker.run().await;
    worker.advance(DAY * 4);
    let new = worker.client().enqueue(Mail).await.unwrap().id;
    worker.run().await;
    worker.advance(DAY * 4);
    (worker, old, new)
}

#[tokio::test]
async fn two_that_both_prune_delete_once_what_is_past_its_retention_and_nothing_else() {
    let (alone, ..) = old_and_new().await;
    let by_one = done_by(1, &alone.engine(), PRUNE).await;
    let (worker, old, new) = old_and_new().await;
    let engine = worker.engine();
    // Receipts and similar records are past their retention, too.
    assert_eq!((done_by(2, &engine, PRUNE).await, by_one >= 3), (by_one, true));
    for id in old {
        assert!(worker.client().job(id).await.unwrap().is_none(), "job {id} is past its retention");
    }
    assert!(worker.client().job(new).await.unwrap().is_some(), "the job ended four days ago");
    assert_eq!(done_by(2, &engine, PRUNE).await, 0);
}
