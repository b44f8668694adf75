//! A server whose disk is full: it can be read, and refuses every write.

use windlass_servers::redis::{Options, Server};
use windlass_servers::small_disk::SmallDisk;

use crate::full_store::Three;
use crate::struck;

#[tokio::test]
async fn while_the_disk_of_the_server_is_full_no_live_worker_is_taken_for_dead() {
    let disk = SmallDisk::new(8 << 20).expect("tests of full disks run as root, which may mount one");
    let settings = vec![("dir".to_owned(), disk.path().display().to_string())];
    let server = Server::start(&Options { settings, ..Options::default() }).expect("it starts");
    let url = server.url();
    let three = Three::start(|| struck::open(&url)).await;
    disk.fill().unwrap();
    three.fall_silent().await;
    disk.free().unwrap();
    three.live_on().await;
}
