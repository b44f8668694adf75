use serde_json::json;

use crate::exit::Code;
use crate::testing::Shell;

#[tokio::test]
async fn a_fresh_store_has_no_triggers() {
    let shell = Shell::new();
    assert_eq!(shell.ok("trigger list --json").await.json(), json!([]));
    let unknown = shell.run("trigger show recalculate", "").await;
    assert_eq!(unknown.code, Code::NotFound, "{unknown:?}");
}

#[tokio::test]
async fn a_trigger_is_added_changed_shown_and_removed() {
    let shell = Shell::with_type().await;
    let added = shell.ok("trigger add Done group%import%7 --job t --payload {\"n\":1} --priority high").await;
    assert!(
        added.out.starts_with("done is stored: when group import 7 has finished, t is enqueued"),
        "{added:?}"
    );
    let shown = shell.ok("trigger show done --json").await.json();
    assert_eq!(shown["watch"], json!({ "kind": "group", "name": "import 7" }));
    assert_eq!((&shown["job"]["type"], &shown["job"]["priority"]), (&json!("t"), &json!(0)));
    assert_eq!((&shown["fired"], &shown["origin"]), (&json!(0), &json!("cli")));
    let changed = shell.ok("trigger add done queue bulk --job t --wait-for-retries --json").await.json();
    assert_eq!((&changed["result"], &changed["watch"]), (&json!("changed"), &json!("queue bulk")));
    let same = shell.ok("trigger add done queue bulk --job t --wait-for-retries --json").await.json();
    assert_eq!(same["result"], "unchanged");
    let text = shell.ok("trigger show done").await.out;
    assert!(text.contains("queue bulk") && text.contains("all unfinished jobs"), "{text}");
    let table = shell.ok("trigger list").await.out;
    assert!(table.contains("queue bulk") && table.contains("done"), "{table}");
    shell.ok("trigger remove done --yes").await;
    let gone = shell.run("trigger remove done --yes", "").await;
    assert_eq!(gone.code, Code::NotFound, "{gone:?}");
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_anything_is_stored() {
    let shell = Shell::with_type().await;
    for (wrong, said) in [
        ("bulk --job t", "queue NAME"),
        ("queue --job t", "a queue name"),
        ("queue a%b --job t", "a queue name"),
        ("tag x --job t", "group NAME"),
        ("queue bulk --job t --payload {", "JSON"),
        ("queue bulk --job t --timeout 0s", "time-out"),
        ("queue bulk --job t --priority soon", "soon"),
    ] {
        let done = shell.run(&format!("trigger add wrong {wrong}"), "").await;
        assert_eq!(done.code, Code::Usage, "{wrong}: {done:?}");
        assert!(done.err.contains(said), "{wrong}: {done:?}");
    }
    assert_eq!(shell.ok("trigger list --json").await.json(), json!([]));
}

#[tokio::test]
async fn an_unregistered_job_type_is_taken_and_told() {
    let shell = Shell::new();
    let added = shell.ok("trigger add done queue bulk --job unknown").await;
    assert!(added.err.contains("unknown is not registered yet"), "{added:?}");
}

#[tokio::test]
async fn what_is_stored_is_compared_with_the_configuration() {
    let shell = Shell::with_type().await;
    shell.ok("trigger add by-hand queue bulk --job t").await;
    let diff = shell.ok("trigger diff --json").await.json();
    assert_eq!(diff[0]["difference"], "stored at the command line");
}
