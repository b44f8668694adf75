use std::time::Duration;

use serde_json::json;
use windlass_core::clock::Clock;
use windlass_core::engine::Engine;
use windlass_core::limits::WORKER_LEASE;
use windlass_core::worker::{Heartbeat, WorkerCard, WorkerId};

use crate::exit::Code;
use crate::testing::Shell;

async fn register(shell: &Shell, bits: u128) -> WorkerId {
    let id = WorkerId::from_random(bits << 120);
    let card = WorkerCard {
        id,
        host: "north".into(),
        pid: 12,
        version: "1.2.3".into(),
        queues: vec!["high".parse().unwrap()],
        types: vec!["t".parse().unwrap()],
        duties: vec!["rescue".parse().unwrap()],
        slots: 20,
        lease: WORKER_LEASE,
    };
    shell.engine.register(card).await.unwrap();
    id
}

#[tokio::test]
async fn a_worker_is_shown_with_its_slots_its_heartbeat_and_its_clock() {
    let shell = Shell::new();
    let id = register(&shell, 0xab).await;
    let ahead = shell.clock.now().plus(Duration::from_millis(1_500));
    shell
        .engine
        .heartbeat_with_members(Heartbeat { worker: id, lease: WORKER_LEASE, idle: false }, ahead)
        .await
        .unwrap();
    shell.clock.advance(Duration::from_secs(4));
    let shown = shell.ok("worker show AB --json").await.json();
    assert_eq!(
        (&shown["id"], &shown["host"], &shown["pid"]),
        (&json!(id.to_string()), &json!("north"), &json!(12))
    );
    assert_eq!((&shown["version"], &shown["slots"]), (&json!("1.2.3"), &json!(20)));
    assert_eq!((&shown["silent_for"], &shown["clock_ahead_ms"]), (&json!("4s"), &json!(1_500)));
    assert_eq!((&shown["queues"], &shown["duties"]), (&json!(["high"]), &json!(["rescue"])));
    assert_eq!(shell.ok("worker list --json").await.json(), json!([shown]));
    let table = shell.ok("worker list").await.out;
    assert!(table.contains("4s ago") && table.contains("1500 ms ahead"), "{table}");
}

#[tokio::test]
async fn a_worker_is_named_by_what_its_id_begins_with_if_that_is_enough() {
    let shell = Shell::new();
    assert_eq!(shell.run("worker show ab", "").await.code, Code::NotFound);
    register(&shell, 0xab).await;
    register(&shell, 0xac).await;
    assert_eq!(shell.run("worker show a", "").await.code, Code::Usage);
    assert!(shell.ok("worker show ac").await.out.contains("unknown"), "it has never reported its clock");
}
