//! Tests that need access to internals: failures in the middle of a shared transaction.

use std::sync::mpsc::channel;

use windlass_core::enqueue::NewJob;
use windlass_core::job_type::TypeSpec;
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;

use super::store_error::StoreError;
use super::*;

struct Store {
    engine: Arc<SqliteEngine>,
    _folder: tempfile::TempDir,
}

async fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(folder.path().join("jobs.db"), SqliteOptions::default()).unwrap();
    let queue = QueueName::parse("main").unwrap();
    let declaration = Declaration {
        queues: vec![QueueSpec::new(queue.clone())],
        types: vec![TypeSpec::new(kind(), queue)],
    };
    engine.declare(declaration).await.unwrap();
    Store { engine: Arc::new(engine), _folder: folder }
}

fn kind() -> TypeName {
    TypeName::parse("work").unwrap()
}

fn jobs(count: usize, bytes: usize) -> Vec<NewJob> {
    let payload = Payload::encode(&"x".repeat(bytes)).unwrap();
    vec![NewJob::new(kind(), payload); count]
}

fn refused() -> StoreError {
    EngineError::Refused("no".to_owned()).into()
}

/// SQLite's values of the pragma.
const NORMAL: i64 = 1;
const FULL: i64 = 2;

#[tokio::test]
async fn commits_wait_for_what_the_options_say() {
    let of = |options: SqliteOptions, expected: i64| async move {
        let folder = tempfile::tempdir().unwrap();
        let engine = SqliteEngine::open(folder.path().join("jobs.db"), options).unwrap();
        let reading = engine
            .write(|work| Ok(work.conn.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))?));
        assert_eq!(reading.await.unwrap(), expected);
    };
    let normal = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    of(SqliteOptions::default(), FULL).await;
    of(SqliteOptions { synchronous: Synchronous::Full, ..SqliteOptions::default() }, FULL).await;
    of(SqliteOptions::for_spool(), FULL).await;
    of(SqliteOptions { is_spool: true, ..normal.clone() }, NORMAL).await;
    of(normal, NORMAL).await;
}

impl Store {
    /// Queues operations behind one that blocks the writer, so that all of them share a transaction.
    async fn together(&self, operations: Vec<Act>) -> Vec<Result<usize>> {
        self.waiting(operations.into_iter().map(|act| (Haste::Ordinary, act)).collect()).await
    }

    /// Queues operations behind one that blocks the writer.
    async fn waiting(&self, operations: Vec<(Haste, Act)>) -> Vec<Result<usize>> {
        let (go, wait) = channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let engine = self.engine.clone();
        let first = tokio::spawn(async move {
            engine
                .write(move |_| {
                    let _ = started.send(());
                    let _ = wait.recv();
                    Ok(0)
                })
                .await
        });
        has_started.await.expect("the first operation blocks the writer");
        let mut calls = Vec::new();
        for (haste, act) in operations {
            let engine = self.engine.clone();
            calls.push(tokio::spawn(async move { writer::call(&engine.writes, haste, act).await }));
            while self.engine.writes.len() < calls.len() {
                tokio::task::yield_now().await;
            }
        }
        drop(go);
        // The first operation shares the fate of the transaction, which may fail.
        let _ = first.await.unwrap();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.unwrap());
        }
        answers
    }

    async fn enqueued(&self) -> u64 {
        self.engine.queues().await.unwrap()[0].totals.enqueued
    }

    async fn limit_pages(&self, pages: i64) {
        self.engine
            .write(move |work| Ok(work.conn.pragma_update(None, "max_page_count", pages)?))
            .await
            .unwrap();
    }
}

type Act = Box<dyn FnOnce(&mut Work<'_>) -> StoreResult<usize> + Send>;

fn put(count: usize) -> Act {
    Box::new(move |work| Ok(work.enqueue_all(jobs(count, 10))?.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_fails_does_not_spoil_its_neighbours() {
    let store = store().await;
    let spoilt: Act = Box::new(|work| {
        work.enqueue_all(jobs(5, 10))?;
        Err(refused())
    });
    let answers = store.together(vec![put(1), spoilt, put(2)]).await;
    assert!(matches!(answers[0], Ok(1)));
    assert!(matches!(answers[1], Err(EngineError::Refused(_))));
    assert!(matches!(answers[2], Ok(2)));
    assert_eq!(store.enqueued().await, 3, "the failed operation is not counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_an_answer_and_the_writer_goes_on() {
    let store = store().await;
    let answers = store.together(vec![put(1), Box::new(|_| panic!("a planted panic"))]).await;
    assert!(answers.iter().all(Result::is_err), "no caller is told that it is done: {answers:?}");
    assert_eq!(store.enqueued().await, 0);
    assert_eq!(store.engine.write(put(1)).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported_to_every_caller_and_the_writer_goes_on_when_there_is_room() {
    let store = store().await;
    let pages: i64 = store
        .engine
        .read(|conn, _| Ok(conn.query_row("PRAGMA page_count", [], |row| row.get(0))?))
        .await
        .unwrap();
    store.limit_pages(pages + 2).await;
    let big: Act = Box::new(|work| Ok(work.enqueue_all(jobs(100, 4_000))?.len()));
    let error = store.engine.write(big).await.unwrap_err();
    assert!(matches!(error, EngineError::Full { .. }), "{error:?}");
    let big: Act = Box::new(|work| Ok(work.enqueue_all(jobs(100, 4_000))?.len()));
    let answers = store.together(vec![put(1), big]).await;
    assert!(matches!(answers[1], Err(EngineError::Full { .. })), "{answers:?}");
    assert_eq!(store.enqueued().await, answers.iter().flatten().sum::<usize>() as u64);
    store.limit_pages(1_000_000).await;
    assert_eq!(store.engine.write(put(3)).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_is_not_lost_with_jobs_that_a_full_disk_has_no_room_for() {
    let store = store().await;
    let pages: i64 = store
        .engine
        .read(|conn, _| Ok(conn.query_row("PRAGMA page_count", [], |row| row.get(0))?))
        .await
        .unwrap();
    store.limit_pages(pages + 2).await;
    let big: Act = Box::new(|work| Ok(work.enqueue_all(jobs(100, 4_000))?.len()));
    let answers = store.waiting(vec![(Haste::Ordinary, big), (Haste::Urgent, put(1))]).await;
    assert!(matches!(answers[0], Err(EngineError::Full { .. })), "{answers:?}");
    assert!(matches!(answers[1], Ok(1)), "{answers:?}");
    assert_eq!(store.enqueued().await, 1);
}

#[tokio::test]
async fn a_heartbeat_goes_ahead_of_what_waits() {
    let store = store().await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (go, wait) = channel::<()>();
    let (started, has_started) = channel::<()>();
    let engine = store.engine.clone();
    let first = tokio::spawn(async move {
        engine
            .write(move |_| {
                started.send(()).unwrap();
                let _ = wait.recv();
                Ok(())
            })
            .await
    });
    while has_started.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    let note = |name: &'static str| {
        let order = order.clone();
        move |_: &mut Work<'_>| {
            order.lock().unwrap().push(name);
            Ok(())
        }
    };
    let engine = store.engine.clone();
    let (ordinary, urgent) = (note("ordinary"), note("urgent"));
    let writes = tokio::spawn(async move {
        tokio::join!(engine.write(ordinary), writer::call(&engine.writes, Haste::Urgent, urgent))
    });
    while store.engine.writes.len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(go);
    first.await.unwrap().unwrap();
    let (ordinary, urgent) = writes.await.unwrap();
    ordinary.unwrap();
    urgent.unwrap();
    assert_eq!(*order.lock().unwrap(), ["urgent", "ordinary"]);
}
