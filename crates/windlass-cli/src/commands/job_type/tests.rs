use serde_json::json;

use crate::exit::Code;
use crate::testing::Shell;

#[tokio::test]
async fn a_registered_type_is_listed_and_shown_with_its_settings() {
    let shell = Shell::new();
    let line = "type register mail.send --queue HIGH --retry fixed:every=1s --timeout 2h --priority low --retention-days 90 --keep-result --json";
    assert_eq!(
        shell.ok(line).await.json(),
        json!({ "type": "mail.send", "queue": "high", "result": "registered" })
    );
    let expected = json!({
        "name": "mail.send", "queue": "high", "retry": { "policy": "fixed", "every": "1s", "attempts": 5 },
        "timeout": "7200s", "priority": 10, "retention_days": 90, "keep_result": true, "workers": 0, "unfinished": 0
    });
    assert_eq!(shell.ok("type show mail.send --json").await.json(), expected);
    assert_eq!(shell.ok("type list --json").await.json(), json!([expected]));
    let table = shell.ok("type list").await.out;
    assert!(table.contains("mail.send  high   fixed  2h       90d"), "{table}");
    assert!(shell.ok("type show mail.send").await.out.contains("90 days"));
}

#[tokio::test]
async fn registering_again_changes_only_what_is_given() {
    let shell = Shell::new();
    shell.ok("type register a --queue high --timeout 5m --keep-result").await;
    let done = shell.ok("type register a --queue high --retention-days 1 --json").await.json();
    assert_eq!(done["result"], "updated");
    let shown = shell.ok("type show a --json").await.json();
    assert_eq!(
        (&shown["timeout"], &shown["retention_days"], &shown["keep_result"]),
        (&json!("300s"), &json!(1), &json!(true))
    );
    shell.ok("type register a --queue high --keep-result false").await;
    assert_eq!(shell.ok("type show a --json").await.json()["keep_result"], false);
}

#[tokio::test]
async fn a_type_stays_in_its_queue_and_wrong_settings_are_refused() {
    let shell = Shell::with_type().await;
    let cases = [
        ("type register t --queue low", Code::Refused, "high"),
        ("type register b --queue nowhere", Code::NotFound, "no queue nowhere"),
        ("type register b --queue hgh", Code::NotFound, "did you mean `high`?"),
        ("type register b", Code::Usage, "--queue"),
        ("type register odd%name --queue high", Code::Usage, "a-z"),
        ("type register b --queue high --timeout 99999d", Code::Usage, "timeout"),
        ("type register b --queue high --retention-days 99999", Code::Usage, "retention_days"),
        ("type register b --queue high --retry fixed", Code::Usage, "every"),
        ("type register b --queue high --priority urgent", Code::Usage, "high, low, normal"),
        ("type show unknown", Code::NotFound, "no job type unknown"),
    ];
    for (line, code, expected) in cases {
        let done = shell.run(line, "").await;
        assert_eq!(done.code, code, "{line}: {done:?}");
        assert!(done.err.contains(expected), "{line}: {done:?}");
    }
}
