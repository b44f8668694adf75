//! The disk of the spool is full. While the store is available, workers and consumers start and work.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use windlass::dequeue::{Consumer, Next};
use windlass::sqlite::{SqliteEngine, SqliteOptions};
use windlass::types::engine::Engine;
use windlass::types::fallback::Side;
use windlass::{Context, Handlers, JobType, State, Stopped, Worker, spec_of};
use windlass_servers::small_disk::SmallDisk;

use crate::full_store::Three;
use crate::primary::{Primary, options, status, until, until_away};

const KILOBYTES: u32 = 16 * 1024;

#[derive(Serialize, Deserialize)]
struct Note {
    number: usize,
}

impl JobType for Note {
    const NAME: &'static str = "note";
}

type Seen = Arc<Mutex<Vec<(usize, Side)>>>;

async fn note(job: Note, ctx: Context, State(seen): State<Seen>) {
    seen.lock().unwrap().push((job.number, Side::of(ctx.job().id)));
}

fn open_spool(disk: &SmallDisk) -> Arc<SqliteEngine> {
    Arc::new(SqliteEngine::open_spool(disk.path().join("spool.db"), SqliteOptions::for_spool()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_starts_while_the_disk_of_its_spool_is_full_and_works_on_the_spool_when_there_is_room() {
    let name = "full_disk::a_worker_starts_while_the_disk_of_its_spool_is_full_and_works_on_the_spool_when_there_is_room";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    // First no file can be created. Then the file exists, another process uses it, and nothing can be
    // written.
    for is_in_use in [false, true] {
        let other = is_in_use.then(|| open_spool(&disk));
        disk.fill().unwrap();
        let primary = Primary::redis();
        let engine = primary.with(open_spool(&disk)).await;
        let seen = Seen::default();
        let handlers = Handlers::new(Arc::clone(&seen)).handle(note);
        let mut worker = Worker::start(engine.clone(), handlers, options()).await.unwrap();
        worker.client().enqueue(Note { number: 1 }).await.unwrap();
        until(&engine, "the job has run", async || *seen.lock().unwrap() == [(1, Side::Primary)]).await;
        disk.make_room().unwrap();
        until(&engine, "the spool is ready", async || status(&engine).await.spool_trouble.is_none()).await;
        primary.cut();
        until_away(&engine).await;
        worker.client().enqueue(Note { number: 2 }).await.unwrap();
        until(&engine, "the job has run from the spool", async || {
            seen.lock().unwrap().contains(&(2, Side::Spool))
        })
        .await;
        primary.reconnect();
        assert_eq!(worker.stop().await, Stopped::Clean);
        drop(other);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_disk_of_a_shared_spool_is_full_no_live_worker_is_taken_for_dead() {
    let name = "full_disk::while_the_disk_of_a_shared_spool_is_full_no_live_worker_is_taken_for_dead";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    let primary = Primary::redis();
    primary.cut();
    let three = Three::start(|| async { primary.with(open_spool(&disk)).await as Arc<dyn Engine> }).await;
    disk.fill().unwrap();
    three.fall_silent().await;
    disk.make_room().unwrap();
    three.live_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_starts_while_the_disk_of_its_spool_is_full() {
    let name = "full_disk::a_consumer_starts_while_the_disk_of_its_spool_is_full";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    disk.fill().unwrap();
    let primary = Primary::redis();
    let engine = primary.with(open_spool(&disk)).await;
    let consumer =
        Consumer::start(engine.clone(), vec![spec_of::<Note>().unwrap()], options()).await.unwrap();
    consumer.client().enqueue(Note { number: 1 }).await.unwrap();
    let Next::Job(held) = consumer.next_within(crate::primary::PATIENCE).await else {
        panic!("expected a job")
    };
    held.succeed().await.unwrap();
    disk.make_room().unwrap();
    assert_eq!(consumer.stop().await, Stopped::Clean);
}
