//! The disk of the spool is full. The primary answers, so the process starts and continues, and errors name
//! the disk that is full.

use std::sync::Arc;

use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::error::EngineError;
use windlass_core::queue::QueueSpec;
use windlass_core::spool::Spool;
use windlass_engines::fallback::FallbackEngine;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};
use windlass_servers::small_disk::SmallDisk;

use crate::primary::{
    Primary, declaration, job, payloads, put, queue, quick, request, spool, status, until, until_away,
    until_replayed,
};

const KILOBYTES: u32 = 16 * 1024;

fn open_spool(disk: &SmallDisk) -> Arc<dyn Spool> {
    Arc::new(SqliteEngine::open_spool(disk.path().join("spool.db"), SqliteOptions::for_spool()).unwrap())
}

#[tokio::test]
async fn a_process_starts_while_the_disk_of_its_spool_is_full_and_opens_the_spool_when_there_is_room() {
    let name = "full_disk::a_process_starts_while_the_disk_of_its_spool_is_full_and_opens_the_spool_when_there_is_room";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    disk.fill().unwrap();
    let primary = Primary::on_redis().await;
    let engine = primary.with(open_spool(&disk), quick()).await;
    assert!(matches!(put(&engine, job(0)).await, EnqueueAnswer::New(_)));
    let trouble = status(&engine).await.spool_trouble.expect("the spool cannot be opened");
    assert!(trouble.contains("spool.db"), "{trouble}");
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 1, "only the primary is shown");
    assert_eq!(payloads(&engine).await, [0]);
    engine.pause(&queue(), None, None).await.expect("the spool receives the pause later");
    engine.resume(&queue()).await.unwrap();

    primary.go();
    until_away(&engine).await;
    let error = engine.enqueue(request(vec![job(1)])).await.unwrap_err();
    assert!(matches!(error, EngineError::Full { .. }), "nothing was stored: {error:?}");
    let told = error.to_string();
    assert!(told.contains("spool failed") && told.contains("spool.db") && told.contains("redis"), "{told}");

    disk.make_room().unwrap();
    until(&engine, "the spool is open", async || status(&engine).await.spool_trouble.is_none()).await;
    spool(&engine, job(2)).await;
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, [0, 2]);
}

#[tokio::test]
async fn a_process_whose_spool_is_there_and_full_starts_and_tells_the_spool_later_what_it_declared() {
    let name = "full_disk::a_process_whose_spool_is_there_and_full_starts_and_tells_the_spool_later_what_it_declared";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    // Without another process on the file, its shared memory must be created anew; with one, only writing
    // fails.
    for is_in_use in [false, true] {
        let other = Some(open_spool(&disk)).filter(|_| is_in_use);
        disk.fill().unwrap();
        let primary = Primary::on_redis().await;
        let mut declared = declaration();
        declared.queues.push(QueueSpec::new(format!("new-{is_in_use}").parse().unwrap()));
        let beside = open_spool(&disk);
        assert_eq!(beside.trouble().is_none(), is_in_use);
        let engine = primary.with(beside, quick()).await;
        engine.declare(declared).await.unwrap();
        assert!(matches!(put(&engine, job(0)).await, EnqueueAnswer::New(_)));
        let trouble =
            status(&engine).await.spool_trouble.expect("the declarations could not be stored in it");
        assert!(trouble.contains("room on the disk of") && trouble.contains("spool.db"), "{trouble}");
        disk.make_room().unwrap();
        until(&engine, "the spool has the declarations", async || {
            status(&engine).await.spool_trouble.is_none()
        })
        .await;
        primary.go();
        spool(&engine, job(1)).await;
        let known = engine.spool().unwrap().queues().await.unwrap();
        assert!(known.iter().any(|queue| queue.spec.name.as_str() == format!("new-{is_in_use}")));
        drop(other);
    }
}

#[tokio::test]
async fn a_full_disk_of_the_spool_is_not_told_as_if_it_were_the_stores() {
    let name = "full_disk::a_full_disk_of_the_spool_is_not_told_as_if_it_were_the_stores";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    let primary = Primary::on_redis().await;
    let engine = primary.with(open_spool(&disk), quick()).await;
    primary.go();
    until_away(&engine).await;
    disk.fill().unwrap();
    let big = || windlass_core::payload::Payload::encode(&"x".repeat(100_000)).unwrap();
    let jobs = || (0..100).map(|_| windlass_core::enqueue::NewJob { payload: big(), ..job(1) }).collect();
    let error = engine.enqueue(request(jobs())).await.unwrap_err();
    assert!(matches!(error, EngineError::Full { .. }), "{error:?}");
    let told = error.to_string();
    assert!(!told.contains("store is full"), "{told}");
    assert!(
        told.contains("spool failed: expected room on the disk of") && told.contains("spool.db"),
        "{told}"
    );
    assert!(told.contains("redis is away"), "and why the spool was used: {told}");
}

#[tokio::test]
async fn without_the_store_and_the_spool_nothing_starts() {
    let name = "full_disk::without_the_store_and_the_spool_nothing_starts";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    disk.fill().unwrap();
    let primary = Primary::on_redis().await;
    primary.go();
    let opened =
        FallbackEngine::open(primary.name, primary.connect.clone(), open_spool(&disk), quick()).await;
    let told = opened.unwrap_err().to_string();
    assert!(told.contains("neither redis nor the spool") && told.contains("spool.db"), "{told}");
    primary.store.declare(declaration()).await.unwrap();
}
