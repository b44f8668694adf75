//! A file that can be read but not written, for longer than any lease.

use std::sync::Arc;
use std::time::Duration;

use windlass::sqlite::rusqlite::Connection;
use windlass::sqlite::{SqliteEngine, SqliteOptions};
use windlass::types::engine::Engine;
use windlass_servers::small_disk::SmallDisk;

use crate::full_store::Three;

const KILOBYTES: u32 = 8 * 1024;

#[tokio::test]
async fn while_the_disk_is_full_no_live_worker_is_taken_for_dead() {
    let name = "full_disk::while_the_disk_is_full_no_live_worker_is_taken_for_dead";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    let file = disk.path().join("jobs.db");
    let three = Three::start(|| async { crate::open(&file) }).await;
    disk.fill().unwrap();
    three.fall_silent().await;
    disk.make_room().unwrap();
    three.live_on().await;
}

#[tokio::test]
async fn while_another_program_holds_the_write_lock_no_live_worker_is_taken_for_dead() {
    let file = crate::fresh_file();
    // Shorter than a lease, and longer than a busy machine takes to write.
    let options = SqliteOptions { busy_timeout: Duration::from_millis(500), ..SqliteOptions::default() };
    let open = || async {
        let engine = SqliteEngine::open(&file, options.clone()).expect("the file opens");
        Arc::new(engine) as Arc<dyn Engine>
    };
    let three = Three::start(open).await;
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    three.fall_silent().await;
    other.execute_batch("ROLLBACK").unwrap();
    three.live_on().await;
}
