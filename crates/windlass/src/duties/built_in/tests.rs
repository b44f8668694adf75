use serde::{Deserialize, Serialize};

use super::*;
use crate::testing::TestWorker;
use crate::{Handlers, JobType};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Serialize, Deserialize)]
struct Mail;

impl JobType for Mail {
    const NAME: &'static str = "mail";
}

async fn send(_: Mail) {}

/// A duty as one of two leaders has it.
fn one_of_two(engine: &Arc<dyn Engine>, name: &str) -> Task {
    let manner = Manner { mode: DutyMode::EveryWorker, rotation: None };
    let upkeep =
        Upkeep { manner, sweep_every: Duration::from_secs(5), crashes_max: 3, minutes_kept: DAY * 30 };
    let all = tasks(engine, upkeep, None, &Mailbox::default());
    all.into_iter().find(|task| task.duty.name.as_str() == name).expect("it is one of them")
}

/// What two leaders do at once, in all.
async fn done_by_two(engine: &Arc<dyn Engine>, name: &str) -> u64 {
    let contexts = [DutyContext::of_test(engine), DutyContext::of_test(engine)];
    let runs = contexts.clone().map(|context| (one_of_two(engine, name).duty.run)(context));
    let [first, second] = runs.map(tokio::spawn);
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    contexts.iter().map(|context| context.report(Ok(())).items).sum()
}

#[tokio::test]
async fn two_that_both_prune_delete_once_what_is_past_its_retention_and_nothing_else() {
    let mut worker = TestWorker::new(Handlers::new(()).handle(send));
    let mut old = Vec::new();
    for _ in 0..3 {
        old.push(worker.client().enqueue(Mail).await.unwrap().id);
    }
    worker.run().await;
    worker.advance(DAY * 8);
    let kept = worker.client().enqueue(Mail).await.unwrap().id;
    worker.run().await;
    let engine = worker.engine();
    assert_eq!(done_by_two(&engine, PRUNE).await, 3);
    for id in old {
        assert!(worker.client().job(id).await.unwrap().is_none(), "job {id} is past its retention");
    }
    assert!(worker.client().job(kept).await.unwrap().is_some(), "it has just ended");
    assert_eq!(done_by_two(&engine, PRUNE).await, 0);
}
