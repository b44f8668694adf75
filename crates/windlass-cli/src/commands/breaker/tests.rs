use serde_json::json;
use windlass_core::gate::Gate;
use windlass_core::outcome::AttemptOutcome;

use crate::exit::Code;
use crate::testing::Shell;

#[tokio::test]
async fn a_fresh_store_knows_no_breaker() {
    let shell = Shell::new();
    assert_eq!(shell.ok("breaker list --json").await.json(), json!([]));
    assert_eq!(shell.run("breaker show shop", "").await.code, Code::NotFound);
}

#[tokio::test]
async fn a_breaker_is_opened_for_a_time_and_lets_probes_through_afterwards() {
    let shell = Shell::new();
    let done = shell.ok("breaker open shop --for 1h --reason they%move").await;
    assert_eq!(done.out, "shop is open for 1h\n");
    let shown = shell.ok("breaker show shop --json").await.json();
    assert_eq!((&shown["state"], &shown["why"]), (&json!("open"), &json!("they move")));
    assert_eq!(
        (&shown["open_until"], &shown["probes_in_seconds"]),
        (&json!("2026-01-01T01:00:00.000Z"), &json!(3600))
    );
    let table = shell.ok("breaker list").await.out;
    assert!(table.contains("shop") && table.contains("they move; probes in 1h"), "{table}");
    shell.clock.advance(std::time::Duration::from_secs(3600));
    assert_eq!(shell.ok("breaker show shop --json").await.json()["state"], "half-open");
}

#[tokio::test]
async fn a_breaker_is_open_until_it_is_closed_and_then_the_jobs_that_waited_go_on() {
    let mut shell = Shell::with_type().await;
    shell.ok("breaker open shop").await;
    shell.clock.advance(std::time::Duration::from_secs(1_000_000));
    assert_eq!(shell.ok("breaker list --json").await.json()[0]["state"], "open");
    shell.ok("job enqueue t").await;
    let claimed = shell.claim().await;
    shell.end(claimed, AttemptOutcome::Held(Gate::named("breaker:shop")), None).await;
    assert_eq!(shell.ok("breaker show shop --json").await.json()["waiting"], 1);
    let closed = shell.ok("breaker close shop --json").await.json();
    assert_eq!((&closed["state"], &closed["let_through"]), (&json!("closed"), &json!(1)));
    shell.claim().await;
}

#[tokio::test]
async fn a_breaker_of_each_process_is_shown_as_such_and_cannot_be_changed_from_outside() {
    let variable = ("WINDLASS__BREAKERS__SHOP__SCOPE".to_owned(), "process".to_owned());
    let mut shell = Shell::new();
    shell.variables.push(variable);
    let shown = shell.ok("breaker show shop --json").await.json();
    assert_eq!((&shown["scope"], &shown["state"]), (&json!("process"), &json!(null)));
    let table = shell.ok("breaker list").await.out;
    assert!(table.contains("process") && table.contains("each process has its own state"), "{table}");
    assert!(!table.contains("closed"), "its state is unknown: {table}");
    for change in ["open", "close", "reset"] {
        let refused = shell.run(&format!("breaker {change} shop"), "").await;
        assert_eq!(refused.code, Code::Refused);
        assert!(refused.err.contains("scope `process`"), "{}", refused.err);
    }
    assert_eq!(shell.ok("breaker open bank --json").await.json()["scope"], "store");
}

#[tokio::test]
async fn a_reset_starts_over() {
    let shell = Shell::new();
    shell.ok("breaker open shop --for 1h").await;
    assert_eq!(shell.ok("breaker reset shop").await.out, "shop is closed; 0 waiting jobs are released\n");
    let shown = shell.ok("breaker show SHOP --json").await.json();
    assert_eq!((&shown["state"], &shown["failures_in_a_row"]), (&json!("closed"), &json!(0)));
}
