//! What the functions refuse: with core's texts, an error code of Windlass and a hint what to do. The error
//! of one job does not affect the others.

use std::time::Duration;

use windlass_core::engine::Admin;
use windlass_core::enqueue::Refusal;
use windlass_core::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX, TAG_BYTES_MAX, TAGS_MAX};
use windlass_core::names::{CorrelationId, GroupName, Key, PriorityLabel, QueueName, Tag, TypeName};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::provenance::{Cause, TraceContext};
use windlass_core::retry::{Delay, RetryPolicy, Tier};
use windlass_core::stored::unknown_field;
use windlass_engines::postgres::tokio_postgres::Client;
use windlass_engines::postgres::tokio_postgres::error::DbError;

use super::test_store::{TestStore, enqueue, kind, queue, status, work};

/// Returns the error that a call of `enqueue` raises.
async fn raised(place: &TestStore, client: &Client, text: &str) -> DbError {
    let called = client.simple_query(&place.sql(&format!("SELECT windlass.enqueue({text})"))).await;
    called.expect_err(text).as_db_error().expect("the server sent the error").clone()
}

/// Asserts that the text is core's; the part about what to do is in the hint.
fn assert_words(error: &DbError, code: &str, core: &str) {
    assert_eq!(error.code().code(), code, "{error:?}");
    let hint = error.hint().expect("a hint");
    let in_full = format!("{}; {hint}", error.message());
    assert!(error.message() == core || in_full == core, "expected {core:?}, got {in_full:?}");
}

#[tokio::test]
async fn what_core_refuses_is_raised_in_its_words() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    enqueue(&engine, vec![windlass_core::enqueue::NewJob { job_type: kind("small.work"), ..work() }; 3])
        .await;
    let too_many = format!("'work', tags => array_fill('t'::text, ARRAY[{}])", TAGS_MAX + 1);
    let cases: [(&str, &str, Refusal); 10] = [
        ("'nope'", "WL001", Refusal::UnknownType { job_type: kind("nope") }),
        (
            "'work', queue => 'Small'",
            "WL002",
            Refusal::OtherQueue { job_type: kind("work"), registered: queue("main"), got: queue("small") },
        ),
        ("'small.work'", "WL004", Refusal::QueueFull { queue: queue("small"), capacity: 3 }),
        ("'work', delay => '3651 days'", "WL005", Refusal::TooFar),
        ("'work', run_at => '1969-12-31'", "WL005", Refusal::TooFar),
        ("'work', run_at => 'infinity'", "WL005", Refusal::TooFar),
        ("'work', expires_in => '1000000 years'", "WL005", Refusal::TooFar),
        (&too_many, "WL006", Refusal::TooManyTags { got: TAGS_MAX + 1 }),
        ("'work', timeout => '0'", "WL007", Refusal::Timeout),
        ("'work', timeout => '31 days'", "WL007", Refusal::Timeout),
    ];
    for (text, code, refusal) in cases {
        assert_words(&raised(&place, &client, text).await, code, &refusal.to_string());
    }
    engine.set_shut(&queue("main"), true).await.unwrap();
    let shut = Refusal::QueueShut { queue: queue("main") };
    assert_words(&raised(&place, &client, "'work'").await, "WL003", &shut.to_string());
    assert_eq!(place.traces(&client).await, "3 jobs, 0 keys, 1 changes, 1 receipts");
}

#[tokio::test]
async fn values_that_are_none_are_raised_in_the_words_of_those_who_parse_them() {
    let place = TestStore::new();
    place.ready().await;
    let client = place.connect().await;
    let long = |bytes: usize| "x".repeat(bytes);
    let key = |text: &str| format!("'work', key => '{text}'");
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let big = format!("\"{}\"", long(PAYLOAD_BYTES_MAX));
    let cases: Vec<(String, String)> = vec![
        ("'no spaces'".into(), TypeName::parse("no spaces").unwrap_err().to_string()),
        ("''".into(), TypeName::parse("").unwrap_err().to_string()),
        (format!("E'{}'", "a\\n"), TypeName::parse("a\n").unwrap_err().to_string()),
        ("'work', queue => 'a/b'".into(), QueueName::parse("a/b").unwrap_err().to_string()),
        ("'work', label => 'ä'".into(), PriorityLabel::parse("ä").unwrap_err().to_string()),
        (key(""), Key::parse("").unwrap_err().to_string()),
        ("'work', key => E'a\\tb'".into(), Key::parse("a\tb").unwrap_err().to_string()),
        ("'work', correlation_id => ''".into(), CorrelationId::parse("").unwrap_err().to_string()),
        ("'work', caused_by => ''".into(), Cause::parse("").unwrap_err().to_string()),
        ("'work', trace_context => '00-0'".into(), TraceContext::parse("00-0").unwrap_err().to_string()),
        ("'work', job_group => ''".into(), GroupName::parse("").unwrap_err().to_string()),
        ("'work', tags => '{a,\"\"}'".into(), Tag::parse("").unwrap_err().to_string()),
        ("'work', priority => 11".into(), Priority::new(11).unwrap_err().to_string()),
        ("'work', priority => -1".into(), Priority::new(-1).unwrap_err().to_string()),
        (format!("'work', '{big}'"), Payload::parse(&big).unwrap_err().to_string()),
        (r#"'work', '"\u0000"'"#.into(), Payload::parse(r#""\u0000""#).unwrap_err().to_string()),
        (
            format!("'work', '{}'", nested(PAYLOAD_DEPTH_MAX + 1)),
            Payload::parse(&nested(PAYLOAD_DEPTH_MAX + 1)).unwrap_err().to_string(),
        ),
    ];
    for (text, words) in cases {
        assert_words(&raised(&place, &client, &text).await, "WL009", &words);
    }
    for text in [
        key(&long(KEY_BYTES_MAX + 1)),
        format!("'work', tags => '{{{}}}'", long(TAG_BYTES_MAX + 1)),
        "NULL".to_owned(),
        "'work', key => 'a', key_scope => 'for ever'".to_owned(),
        "'work', key => 'a', key_scope => '-1 hour'".to_owned(),
        "'work', key => 'a', on_conflict => 'maybe'".to_owned(),
        "'work', delay => '1 hour', run_at => now()".to_owned(),
        "'work', delay => '-1 hour'".to_owned(),
        "'work', expires_in => '-1 hour'".to_owned(),
    ] {
        let error = raised(&place, &client, &text).await;
        assert_eq!(error.code().code(), "WL009", "{text}: {error:?}");
        assert!(
            error.message().starts_with("expected ") && error.message().len() < 300,
            "{}",
            error.message()
        );
    }
    assert_eq!(place.traces(&client).await, "0 jobs, 0 keys, 0 changes, 0 receipts");
}

#[tokio::test]
async fn values_at_their_limits_are_taken() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let nested = "[".repeat(PAYLOAD_DEPTH_MAX) + &"]".repeat(PAYLOAD_DEPTH_MAX);
    let wide = format!("[{}[]]", "[],".repeat(500));
    let bracket_text = format!("[\"{}\\\"{}\"]", "[{".repeat(100), "]".repeat(100));
    let big = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    for payload in [&nested, &wide, &bracket_text, &big] {
        place.ask(&client, &format!("SELECT windlass.enqueue('work', '{payload}')")).await;
    }
    for text in [
        format!("key => '{}'", "x".repeat(KEY_BYTES_MAX)),
        format!("tags => array_fill('{}'::text, ARRAY[{TAGS_MAX}])", "t".repeat(TAG_BYTES_MAX)),
        "delay => '3650 days'".to_owned(),
        "timeout => '30 days'".to_owned(),
        "timeout => '1 microsecond'".to_owned(),
        "key => 'p', key_scope => '0'".to_owned(),
        "key => 'q', key_scope => '100000 years'".to_owned(),
    ] {
        place.ask(&client, &format!("SELECT windlass.enqueue('work', {text})")).await;
    }
    assert_eq!(status(&engine).await.totals.enqueued, 11);
}

#[tokio::test]
async fn a_wrong_retry_policy_is_refused_as_core_refuses_it() {
    let place = TestStore::new();
    place.ready().await;
    let client = place.connect().await;
    let second = Duration::from_secs(1);
    let years = Duration::from_secs(20 * 365 * 86_400);
    let tier = |max_age| Tier { max_age, interval: second };
    let known_to_core = [
        RetryPolicy::default().with_attempts(0),
        RetryPolicy::fibonacci().with_attempts(1_001),
        RetryPolicy::Fixed { every: years, attempts: 3 },
        RetryPolicy::Exponential { base: years, max: second, attempts: 3 },
        RetryPolicy::Progressive { tiers: vec![] },
        RetryPolicy::Progressive { tiers: vec![tier(second * 2), tier(second)] },
        RetryPolicy::Progressive { tiers: vec![Tier { max_age: second, interval: years }] },
        RetryPolicy::List { delays: vec![Delay(second); 1_000] },
    ];
    for policy in known_to_core {
        let why = Refusal::from(policy.check().expect_err("core refuses it"));
        let json = serde_json::to_string(&policy).unwrap();
        let error = raised(&place, &client, &format!("'work', retry => '{json}'")).await;
        assert_words(&error, "WL008", &why.to_string());
    }
    // Texts that core could not even parse.
    for json in [
        "5",
        "null",
        "[]",
        "{}",
        r#"{"policy": "sometimes"}"#,
        r#"{"policy": "fixed"}"#,
        r#"{"policy": "list"}"#,
        r#"{"policy": "list", "delays": "1s"}"#,
        r#"{"policy": "list", "delays": [1]}"#,
        r#"{"policy": "list", "delays": [null]}"#,
        r#"{"policy": "fixed", "every": 30}"#,
        r#"{"policy": "fixed", "every": "soon"}"#,
        r#"{"policy": "fixed", "every": "-1s"}"#,
        r#"{"policy": "fixed", "every": "1s", "attempts": "3"}"#,
        r#"{"policy": "fixed", "every": "1s", "attempts": 2.5}"#,
        r#"{"policy": "fixed", "every": "1s", "attempts": null}"#,
        r#"{"policy": "progressive", "tiers": [5]}"#,
        r#"{"policy": "progressive", "tiers": [{"max_age": "1s"}]}"#,
        r#"{"policy": "progressive", "tiers": [{"max_age": "1s", "interval": "1s", "more": 1}]}"#,
    ] {
        let read: Result<RetryPolicy, _> = serde_json::from_str(json);
        // Core reads past fields that it does not know, since a newer version may have stored them.
        let is_whole = |policy: &RetryPolicy| {
            unknown_field(&serde_json::from_str(json).expect("it is JSON"), policy).is_none()
        };
        assert!(!read.as_ref().is_ok_and(is_whole), "core reads {json}");
        let error = raised(&place, &client, &format!("'work', retry => '{json}'")).await;
        assert_eq!(error.code().code(), "WL008", "{json}: {error:?}");
    }
    assert_eq!(place.traces(&client).await, "0 jobs, 0 keys, 0 changes, 0 receipts");
}

#[tokio::test]
async fn whatever_one_job_of_a_list_is_the_others_are_taken() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let bad = [
        "5",
        "null",
        "[]",
        "\"work\"",
        "{}",
        r#"{"job_type": null}"#,
        r#"{"job_type": {"a": 1}}"#,
        r#"{"job_type": "nope"}"#,
        r#"{"job_type": "work", "unknown": 1}"#,
        r#"{"job_type": "work", "request_id": "00000000-0000-0000-0000-000000000001"}"#,
        r#"{"job_type": "work", "queue": "small"}"#,
        r#"{"job_type": "work", "priority": "high"}"#,
        r#"{"job_type": "work", "priority": 99999999999999999999}"#,
        r#"{"job_type": "work", "priority": 2.5}"#,
        r#"{"job_type": "work", "delay": "soon"}"#,
        r#"{"job_type": "work", "delay": [1]}"#,
        r#"{"job_type": "work", "delay": 1e400}"#,
        r#"{"job_type": "work", "delay": "999999999999999999 years"}"#,
        r#"{"job_type": "work", "delay": 99999999999999999999}"#,
        r#"{"job_type": "work", "run_at": "2026-13-45"}"#,
        r#"{"job_type": "work", "run_at": 99999999999999999999}"#,
        r#"{"job_type": "work", "run_at": "-infinity"}"#,
        r#"{"job_type": "work", "expires_at": "never"}"#,
        r#"{"job_type": "work", "expires_in": true}"#,
        r#"{"job_type": "work", "timeout": "long"}"#,
        r#"{"job_type": "work", "timeout": -5}"#,
        r#"{"job_type": "work", "tags": "one"}"#,
        r#"{"job_type": "work", "tags": {"a": 1}}"#,
        r#"{"job_type": "work", "tags": [null]}"#,
        r#"{"job_type": "work", "key": ""}"#,
        r#"{"job_type": "work", "key": "a", "key_scope": "now and then"}"#,
        r#"{"job_type": "work", "key": "a", "on_conflict": 5}"#,
        r#"{"job_type": "work", "key": "\u0000"}"#,
        r#"{"job_type": "work", "payload": "\u0000"}"#,
        r#"{"job_type": "work", "payload": "\ud83e"}"#,
        r#"{"job_type": "work", "key": "\udd80\ud83e"}"#,
        r#"{"job_type": "work", "retry": "often"}"#,
        r#"{"job_type": "work", "\ud83e": 1}"#,
    ];
    let good = [
        r#"{"job_type": "work"}"#,
        r#"{"job_type": "work", "payload": "\ud83e\udd80 \\ud83e"}"#,
        r#"{"job_type": "work", "key": "\ud83e\udd80"}"#,
    ];
    let jobs: Vec<_> = bad.iter().flat_map(|job| [*job, good[0]]).chain(good).collect();
    let text = format!(
        "SELECT string_agg(answer || coalesce(':' || code, ''), ' ' ORDER BY position)
        FROM windlass.enqueue_many($jobs$[{}]$jobs$)",
        jobs.join(",")
    );
    let answers = place.ask(&client, &text).await;
    let answers: Vec<_> = answers.split(' ').collect();
    assert_eq!(answers.len(), jobs.len());
    for (answer, job) in answers.iter().zip(&jobs) {
        let expected = if good.contains(job) { "new" } else { "refused:WL0" };
        assert!(answer.starts_with(expected), "{job}: {answer}");
    }
    let new = bad.len() + good.len();
    assert_eq!(status(&engine).await.totals.enqueued, u64::try_from(new).unwrap());
    assert_eq!(place.traces(&client).await, format!("{new} jobs, 1 keys, 1 changes, 0 receipts"));
}

#[tokio::test]
async fn a_call_that_is_no_list_or_too_long_a_one_is_refused_whole() {
    let place = TestStore::new();
    place.ready().await;
    let client = place.connect().await;
    let too_long = r#"(SELECT json_agg('{"job_type": "work"}'::json) FROM generate_series(1, 1001))"#;
    for jobs in ["'{}'", "'5'", "NULL", too_long] {
        let text = place.sql(&format!("SELECT * FROM windlass.enqueue_many({jobs})"));
        let error = client.simple_query(&text).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "WL010", "{jobs}");
    }
    assert_eq!(place.traces(&client).await, "0 jobs, 0 keys, 0 changes, 0 receipts");
}

#[tokio::test]
async fn a_refusal_can_be_caught_and_the_transaction_goes_on() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let text = "DO $$ BEGIN
        PERFORM windlass.enqueue('work', key => 'a');
        BEGIN PERFORM windlass.enqueue('nope', key => 'b'); EXCEPTION WHEN SQLSTATE 'WL001' THEN NULL; END;
    END $$";
    client.batch_execute(&place.sql(text)).await.unwrap();
    assert_eq!(status(&engine).await.totals.enqueued, 1);
    assert_eq!(
        engine.job(windlass_core::job::JobId(1)).await.unwrap().unwrap().job.key.unwrap().key.as_str(),
        "a"
    );
}
