use std::time::Duration;

use serde_json::json;

use super::*;
use crate::job_type::TypeSpec;
use crate::names::{QueueName, TypeName};
use crate::queue::QueueSpec;
use crate::retry::{RetryPolicy, Tier};

fn high() -> QueueName {
    QueueName::parse("high").unwrap()
}

fn type_of(retry: &Value) -> StoredSpec<TypeSpec> {
    let stored =
        json!({ "name": "mail", "queue": "high", "retry": retry, "later": 12345678901234567890123_f64 });
    TypeSpec::from_store(&TypeName::parse("mail").unwrap(), &high(), stored.to_string())
}

#[test]
fn unknown_fields_survive_a_change_wherever_they_are() {
    let stored = type_of(&json!({ "policy": "exponential", "base": "1s", "later": { "deep": [1.50] } }));
    let spec = stored.checked().unwrap();
    let to = TypeSpec { retry: spec.retry.clone().with_attempts(9), retention_days: 3, ..spec.clone() };
    let text: Value = serde_json::from_str(&stored.rewritten(&to).unwrap()).unwrap();
    assert_eq!(text["later"], json!(12345678901234567890123_f64));
    assert_eq!(text["retry"]["later"], json!({ "deep": [1.50] }));
    assert_eq!((&text["retry"]["attempts"], &text["retention_days"]), (&json!(9), &json!(3)));
}

#[test]
fn what_is_not_changed_stays_as_it_was_written() {
    let text = r#"{ "concurrency": 4, "name": "high", "big": 12345678901234567890123, "again": 1.10 }"#;
    let stored = QueueSpec::from_store(&high(), text.to_owned());
    assert!(stored.says(&QueueSpec::new(high())));
    assert_eq!(stored.rewritten(&QueueSpec::new(high())).unwrap(), text);
    let changed = stored.rewritten(&QueueSpec { concurrency: 5, ..QueueSpec::new(high()) }).unwrap();
    assert!(
        changed.contains("\"big\":12345678901234567890123") && changed.contains("\"again\":1.10"),
        "{changed}"
    );
}

#[test]
fn elements_of_a_list_keep_their_unknown_fields_where_they_go() {
    let tier = |age: &str, later: u32| json!({ "max_age": age, "interval": "1m", "later": later });
    let stored = type_of(&json!({ "policy": "progressive", "tiers": [tier("1h", 1), tier("2h", 2)] }));
    let spec = stored.checked().unwrap().clone();
    let RetryPolicy::Progressive { tiers } = &spec.retry else { panic!("{spec:?}") };
    let later = |tiers: Vec<Tier>| {
        let to = TypeSpec { retry: RetryPolicy::Progressive { tiers }, ..spec.clone() };
        let text: Value = serde_json::from_str(&stored.rewritten(&to).unwrap()).unwrap();
        let tiers = text["retry"]["tiers"].as_array().unwrap().clone();
        tiers.iter().map(|tier| tier["later"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(later(vec![tiers[1]]), [Some(2)]);
    let other = Tier { max_age: Duration::from_secs(60), ..tiers[0] };
    assert_eq!(later(vec![other, tiers[0], tiers[1]]), [None, Some(1), Some(2)]);
    assert_eq!(later(vec![other, tiers[1]]), [Some(1), Some(2)]);
}

#[test]
fn an_unreadable_text_names_the_field_and_shows_the_others() {
    let text = r#"{"name":"high","concurrency":"many","capacity":7}"#;
    let stored = QueueSpec::from_store(&high(), text.to_owned());
    assert_eq!((stored.concurrency, stored.capacity), (4, Some(7)));
    let why = stored.checked().unwrap_err();
    assert_eq!(why.field.as_deref(), Some("concurrency"));
    let message = why.to_string();
    assert!(message.starts_with("expected queue high") && message.contains("`concurrency`"), "{message}");
    assert!(stored.rewritten(&QueueSpec::new(high())).is_err());
    assert!(!stored.says(&stored));
}

#[test]
fn what_is_no_json_or_about_another_queue_is_unreadable() {
    for text in ["", "{", "7", "[]", "{}", r#"{"name":"low"}"#] {
        let stored = QueueSpec::from_store(&high(), text.to_owned());
        assert!(stored.checked().is_err(), "{text}");
        assert_eq!(*stored, QueueSpec::new(high()), "{text}");
    }
}

#[test]
fn input_with_an_unknown_field_is_told_by_its_name() {
    let policy: RetryPolicy = RetryPolicy::fibonacci();
    assert_eq!(unknown_field(&json!({ "policy": "fibonacci", "unit": "1m" }), &policy), None);
    let wrong = json!({ "policy": "fibonacci", "base": "1m" });
    assert_eq!(unknown_field(&wrong, &policy).as_deref(), Some("base"));
}
