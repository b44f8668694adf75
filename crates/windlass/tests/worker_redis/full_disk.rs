//! A server with a full disk: it can be read, and refuses every write.

use windlass_servers::redis::{Options, Server};
use windlass_servers::small_disk::SmallDisk;

use crate::full_store::Three;
use crate::struck;

const KILOBYTES: u32 = 8 * 1024;

#[tokio::test]
async fn while_the_disk_of_the_server_is_full_no_live_worker_is_taken_for_dead() {
    let name = "full_disk::while_the_disk_of_the_server_is_full_no_live_worker_is_taken_for_dead";
    let Some(disk) = SmallDisk::for_test(name, KILOBYTES).unwrap() else { return };
    let settings = vec![("dir".to_owned(), disk.path().display().to_string())];
    let server = Server::start(&Options { settings, ..Options::default() }).expect("the server starts");
    let url = server.url();
    let three = Three::start(|| struck::open(&url)).await;
    disk.fill().unwrap();
    three.fall_silent().await;
    disk.make_room().unwrap();
    three.live_on().await;
}
