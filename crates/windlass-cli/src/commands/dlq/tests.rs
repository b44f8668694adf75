use serde_json::json;

use crate::exit::Code;
use crate::testing::Shell;

#[tokio::test]
async fn dead_letters_are_listed_and_shown_and_others_are_not() {
    let mut shell = Shell::with_type().await;
    let dead = shell.dead_letter().await;
    shell.ok("job enqueue t").await;
    let listed = shell.ok("dlq list --json").await.json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(dead)));
    assert!(shell.ok("dlq list").await.out.contains("out of paper"));
    assert_eq!(shell.ok("dlq list --queue low --json").await.json(), json!([]));
    assert_eq!(shell.ok(&format!("dlq show {dead} --json")).await.json()["state"], "dead");
    assert_eq!(shell.run("dlq show 2", "").await.code, Code::Refused);
    assert_eq!(shell.run("dlq show 99", "").await.code, Code::NotFound);
    assert_eq!(shell.run("dlq list --queue nowhere", "").await.code, Code::NotFound);
}

#[tokio::test]
async fn one_or_several_are_started_over_and_the_code_says_if_some_were_not() {
    let mut shell = Shell::with_type().await;
    let (a, b, c) = (shell.dead_letter().await, shell.dead_letter().await, shell.dead_letter().await);
    assert_eq!(shell.ok(&format!("dlq retry {a}")).await.out, "1 retried\n");
    assert_eq!(shell.run(&format!("dlq retry {a}"), "").await.code, Code::Refused, "it is ready now");
    assert_eq!(shell.run("dlq retry 99", "").await.code, Code::NotFound);
    let done = shell.run(&format!("dlq retry {b} 99 {c} --json"), "").await;
    assert_eq!(done.code, Code::Partly);
    assert_eq!(
        done.json(),
        json!({ "retried": 2, "refused": [{ "id": 99, "error": "there is no job 99" }] })
    );
}

#[tokio::test]
async fn all_of_a_queue_or_type_need_a_yes() {
    let mut shell = Shell::with_type().await;
    for _ in 0..3 {
        shell.dead_letter().await;
    }
    let refused = shell.run("dlq discard --all", "").await;
    assert_eq!(refused.code, Code::Refused);
    assert!(refused.err.contains("this deletes 3 dead letters"), "{refused:?}");
    assert_eq!(shell.ok("dlq discard --all --queue low --yes").await.out, "0 discarded\n");
    assert_eq!(shell.ok("dlq retry --all --type t --yes").await.out, "3 retried\n");
    assert_eq!(shell.ok("dlq list --json").await.json(), json!([]));
    assert_eq!(shell.run("dlq retry --queue high", "").await.code, Code::Usage, "which ones?");
    assert_eq!(shell.run("dlq retry", "").await.code, Code::Usage);
    assert_eq!(shell.run("dlq retry 1 --all", "").await.code, Code::Usage);
}

#[tokio::test]
async fn a_discarded_letter_is_gone() {
    let mut shell = Shell::with_type().await;
    let dead = shell.dead_letter().await;
    assert_eq!(shell.ok(&format!("dlq discard {dead}")).await.out, "1 discarded\n");
    assert_eq!(shell.run(&format!("dlq discard {dead}"), "").await.code, Code::NotFound);
    shell.ok("job enqueue t").await;
    assert_eq!(shell.run(&format!("dlq discard {}", dead + 1), "").await.code, Code::Refused);
}
