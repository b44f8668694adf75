//! Handlers, extractors, hooks, and the errors that a worker keeps.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use windlass::types::job::{JobState, StoredState};
use windlass::types::outcome::AttemptOutcome;
use windlass::{
    Attempt, Context, FromRef, Handlers, Hook, JobId, JobType, Json, StartError, State, TypeSpec, Worker,
    WorkerOptions,
};

use crate::bench::{Act, Bench};

#[derive(Serialize, Deserialize)]
struct Add(u32, u32);

impl JobType for Add {
    const NAME: &'static str = "add";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        TypeSpec { keep_result: true, ..spec }
    }
}

#[derive(Clone)]
struct App {
    offset: Offset,
}

#[derive(Clone)]
struct Offset(u32);

impl FromRef<App> for Offset {
    fn from_ref(app: &App) -> Self {
        app.offset.clone()
    }
}

async fn add(job: Add, State(offset): State<Offset>, id: JobId, attempt: Attempt) -> Json<(u32, i64, u32)> {
    Json((job.0 + job.1 + offset.0, id.0, attempt.0))
}

#[tokio::test]
async fn a_handler_takes_parts_of_the_state_and_of_the_job_and_its_result_is_kept() {
    let engine = crate::fresh_engine();
    let handlers = Handlers::new(App { offset: Offset(100) }).handle(add);
    let mut worker = Worker::start(engine, handlers, WorkerOptions::default()).await.unwrap();
    let client = worker.client().clone();
    let id = client.enqueue(Add(1, 2)).await.unwrap().id;
    worker.drain().await;
    let record = client.job(id).await.unwrap().unwrap();
    let StoredState::Succeeded { result, .. } = record.state else { panic!("succeeded") };
    assert_eq!(result.unwrap(), format!("[103,{},1]", id.0));
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, line: String) {
        self.0.lock().expect("no hook panics").push(line);
    }
}

struct Named(&'static str, Notes);

impl Hook for Named {
    fn before(&self, ctx: &Context) {
        self.1.note(format!("{} before {}", self.0, ctx.job().job_type));
    }
    fn after(&self, _ctx: &Context, outcome: &AttemptOutcome) {
        self.1.note(format!("{} after {}", self.0, matches!(outcome, AttemptOutcome::Done(_))));
    }
}

#[tokio::test]
async fn hooks_wrap_every_job_like_an_onion() {
    let notes = Notes::default();
    let handlers = Handlers::new(App { offset: Offset(0) })
        .handle(add)
        .hook(Named("outer", notes.clone()))
        .hook(Named("inner", notes.clone()));
    let mut worker = Worker::start(crate::fresh_engine(), handlers, WorkerOptions::default()).await.unwrap();
    worker.client().enqueue(Add(1, 1)).await.unwrap();
    worker.drain().await;
    let expected = ["outer before add", "inner before add", "inner after true", "outer after true"];
    assert_eq!(*notes.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn two_handlers_for_one_type_are_refused() {
    let handlers = Handlers::new(App { offset: Offset(0) }).handle(add).handle(add);
    let started = Worker::start(crate::fresh_engine(), handlers, WorkerOptions::default()).await;
    assert!(matches!(started.err(), Some(StartError::Handlers(_))));
}

#[tokio::test]
async fn the_last_errors_of_a_process_can_be_read_without_a_store() {
    let bench = Bench::start().await;
    let id = bench.client.enqueue(Act::Fail).key("wallet:main").await.unwrap().id;
    bench.until(id, JobState::Dead).await;
    let errors = bench.worker.last_errors();
    assert_eq!(errors.len(), 3);
    assert_eq!((errors[0].job, errors[0].key.as_ref().unwrap().as_str()), (id, "wallet:main"));
    assert_eq!(errors[0].error.text, "always fails");
    assert!(errors[0].error.type_name.as_ref().unwrap().contains("io::error::Error"));
}

#[tokio::test]
async fn a_payload_that_no_longer_decodes_is_buried_and_holds_up_no_other() {
    #[derive(Serialize, Deserialize)]
    struct OldAct(u64);
    impl JobType for OldAct {
        const NAME: &'static str = "act";
    }
    let bench = Bench::start().await;
    let old = bench.client.enqueue(OldAct(7)).await.unwrap().id;
    let new = bench.put(Act::Succeed).await;
    bench.until(new, JobState::Succeeded).await;
    let record = bench.until(old, JobState::Dead).await;
    let StoredState::Dead { error, .. } = record.state else { panic!("dead") };
    assert_eq!(error.kind, windlass::types::outcome::ErrorKind::Undecodable);
    assert_eq!(record.job.counters.attempts, 1);
}
