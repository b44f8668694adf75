//! The functions as any language calls them: plain SQL, in a transaction of its own.

use std::time::Duration;

use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueAnswer, RequestId};
use windlass_core::job::{JobId, JobState};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::Key;
use windlass_core::retry::{Delay, RetryPolicy, Tier};
use windlass_engines::postgres::PostgresEngine;
use windlass_engines::postgres::tokio_postgres::Client;

use super::test_store::{TestStore, claim, keyed, kind, queue, status, succeed};

/// Returns the job id that a call of `enqueue` returns.
async fn call(place: &TestStore, client: &Client, text: &str) -> JobId {
    JobId(place.ask(client, &format!("SELECT windlass.enqueue({text})")).await.parse().unwrap())
}

/// Returns the answers of a call of `enqueue_many`, a word for each job.
async fn call_many(place: &TestStore, client: &Client, jobs: &str) -> String {
    let text =
        "SELECT coalesce(string_agg(answer, ' ' ORDER BY position), 'none') FROM windlass.enqueue_many(";
    place.ask(client, &format!("{text}$jobs${jobs}$jobs$)")).await
}

async fn job(engine: &PostgresEngine, id: JobId) -> windlass_core::job::Job {
    engine.job(id).await.unwrap().expect("the job is stored").job
}

#[tokio::test]
async fn the_call_of_the_docs_works_as_it_stands() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let id = call(&place, &client, "job_type => 'work', payload => '{}', queue => 'main'").await;
    assert_eq!(call(&place, &client, "'work'").await, JobId(id.0 + 1));
    assert_eq!(call(&place, &client, "'work', '[1]', 'MAIN'").await, JobId(id.0 + 2));
    assert_eq!(status(&engine).await.counts.ready, 3);
    let claimed = claim(&engine, 10).await;
    assert_eq!(claimed.len(), 3);
    assert_eq!((claimed[0].job.payload.as_str(), claimed[2].job.payload.as_str()), ("{}", "[1]"));
}

#[tokio::test]
async fn every_argument_reaches_the_job() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let text = r#"job_type => 'work', payload => '{"b": 1, "a":[10000000000000000000001]}', queue => 'Main', priority => 2,
        delay => '5 minutes', expires_in => '50 minutes', key => 'k', key_scope => 'while-live-or-dead',
        on_conflict => 'revive', correlation_id => 'event-7', job_group => 'import 3', tags => '{one,two}',
        label => 'Soonish', timeout => '90 s', retry => '{"policy": "fixed", "every": "7s", "attempts": 9}',
        caused_by => 'user:42', trace_context => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        request_id => '00000000-0000-0000-0000-000000000007'"#;
    let id = call(&place, &client, text).await;
    let job = job(&engine, id).await;
    assert_eq!(job.payload.as_str(), r#"{"b": 1, "a":[10000000000000000000001]}"#);
    assert_eq!((job.queue, job.priority.level()), (queue("main"), 2));
    assert_eq!(job.due.since(job.enqueued_at), Duration::from_secs(300));
    assert_eq!(job.expires_at.unwrap().since(job.enqueued_at), Duration::from_secs(3_000));
    assert_eq!(job.key, Some(KeyClaim::backfill(Key::parse("k").unwrap())));
    assert_eq!((job.correlation.unwrap().as_str(), job.group.unwrap().as_str()), ("event-7", "import 3"));
    let provenance = [Some("user:42"), Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")];
    assert_eq!(job.provenance.entries().map(|(_, text)| text), provenance);
    assert_eq!(job.tags.iter().map(|tag| tag.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((job.label.unwrap().as_str(), job.timeout), ("soonish", Some(Duration::from_secs(90))));
    assert_eq!(job.retry, Some(RetryPolicy::Fixed { every: Duration::from_secs(7), attempts: 9 }));
    let receipt = engine.receipt(RequestId::from_random(7)).await.unwrap();
    assert_eq!(receipt, Some(vec![EnqueueAnswer::New(id)]));
}

#[tokio::test]
async fn drivers_may_bind_the_arguments() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let text = "SELECT windlass.enqueue($1, $2::text::json, tags => $3, key => $4)";
    let (tags, payload) = (vec!["t"], r#"{"a": 1}"#);
    let row = client.query_one(&place.sql(text), &[&"work", &payload, &tags, &"it's"]).await.unwrap();
    let job = job(&engine, JobId(row.get(0))).await;
    assert_eq!((job.payload.as_str(), job.key.unwrap().key.as_str()), (r#"{"a": 1}"#, "it's"));
}

#[tokio::test]
async fn a_payload_of_null_is_null_and_none_is_an_empty_object() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    call(&place, &client, "'work', 'null'").await;
    call(&place, &client, "'work', NULL").await;
    call_many(&place, &client, r#"[{"job_type": "work", "payload": null}, {"job_type": "work"}]"#).await;
    let payloads: Vec<_> =
        claim(&engine, 10).await.iter().map(|claimed| claimed.job.payload.as_str().to_owned()).collect();
    assert_eq!(payloads, ["null", "{}", "null", "{}"]);
}

#[tokio::test]
async fn spans_and_instants_of_a_list_are_texts_or_numbers() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let jobs = r#"[
        {"job_type": "work", "delay": "1 hour 30 minutes"},
        {"job_type": "work", "delay": 5400},
        {"job_type": "work", "delay": "PT1H30M"},
        {"job_type": "work", "delay": "5400.0"},
        {"job_type": "work", "run_at": "2027-01-01T00:00:00.000001Z"},
        {"job_type": "work", "run_at": 1798761600.000001}
    ]"#;
    assert_eq!(call_many(&place, &client, jobs).await, "new new new new new new");
    let mut dues = Vec::new();
    for id in 1..=6 {
        let job = job(&engine, JobId(id)).await;
        dues.push((job.due.since(job.enqueued_at).as_secs(), job.due.as_micros()));
    }
    assert!(dues[..4].iter().all(|(delay, _)| *delay == 5_400), "{dues:?}");
    assert!(dues[4..].iter().all(|(_, due)| *due == 1_798_761_600_000_001), "{dues:?}");
}

#[tokio::test]
async fn a_job_is_as_old_as_its_call_and_not_as_its_transaction() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    client.batch_execute("BEGIN").await.unwrap();
    // Reads the wall clock, which advances while a transaction's own `now()` stays.
    let before = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let before: i64 = place.ask(&client, before).await.parse().unwrap();
    let id = call(&place, &client, "'work'").await;
    client.batch_execute("COMMIT").await.unwrap();
    let job = job(&engine, id).await;
    assert!(job.enqueued_at.as_micros() >= before, "{before} {:?}", job.enqueued_at);
    assert_eq!(job.due, job.enqueued_at);
}

#[tokio::test]
async fn a_call_under_a_request_id_is_answered_once() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let text = "'work', request_id => '00000000-0000-0000-0000-000000000001'";
    let first = call(&place, &client, text).await;
    assert_eq!(call(&place, &client, text).await, first);
    assert_eq!(status(&engine).await.totals.enqueued, 1);
    let many = |jobs: &str| {
        format!(
            "SELECT string_agg(position || ':' || answer || ':' || coalesce(id::text, code), ' ' ORDER BY position)
            FROM windlass.enqueue_many('{jobs}', '00000000-0000-0000-0000-000000000002')"
        )
    };
    let jobs =
        r#"[{"job_type": "work", "key": "a"}, {"job_type": "nope"}, {"job_type": "work", "key": "a"}]"#;
    let answers = place.ask(&client, &many(jobs)).await;
    assert_eq!(answers, "1:new:2 2:refused:WL001 3:duplicate:2");
    assert_eq!(place.ask(&client, &many("[]")).await, answers);
    let key =
        KeyClaim { scope: KeyScope::WhileLive, on_conflict: OnConflict::Keep, ..keyed("a").key.unwrap() };
    assert_eq!(job(&engine, JobId(2)).await.key, Some(key));
}

#[tokio::test]
async fn the_receipt_of_an_engine_is_read_by_the_function() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let wrong = windlass_core::enqueue::NewJob { job_type: kind("nope"), ..super::test_store::work() };
    let jobs = vec![super::test_store::work(), wrong, super::test_store::work()];
    let request = RequestId::from_random(3);
    engine.enqueue(windlass_core::enqueue::EnqueueRequest { request, jobs }).await.unwrap();
    let text = "SELECT string_agg(answer || ':' || coalesce(id::text, code), ' ' ORDER BY position)
        FROM windlass.enqueue_many('[]', '00000000-0000-0000-0000-000000000003')";
    assert_eq!(place.ask(&client, text).await, "new:1 refused:WL001 new:2");
}

#[tokio::test]
async fn a_job_is_completed_with_its_number_and_token_only() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let id = call(&place, &client, "'work'").await;
    let claimed = claim(&engine, 1).await.remove(0);
    let complete = |token: &str| format!("SELECT windlass.complete({}, '{token}')", id.0);
    let other = "00000000-0000-0000-0000-000000000001";
    assert_eq!(place.ask(&client, &complete(other)).await, "f");
    let token = place.ask(&client, "SELECT token FROM windlass.delayed_jobs").await;
    assert_eq!(place.ask(&client, &complete(&token)).await, "t");
    assert_eq!(
        place.ask(&client, &complete(&token)).await,
        "f",
        "only the call that ends the job returns true"
    );
    assert_eq!(place.ask(&client, &complete(other)).await, "f");
    assert_eq!(engine.job(id).await.unwrap().unwrap().job_state(), JobState::Succeeded);
    assert_eq!(succeed(&engine, &claimed).await, windlass_core::settle::Settled::Applied);
}

#[tokio::test]
async fn every_retry_policy_survives_and_sets_the_number_of_tries() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let tiers =
        vec![Tier { max_age: day, interval: second }, Tier { max_age: day * 2, interval: second * 2 }];
    let policies = [
        RetryPolicy::default(),
        RetryPolicy::default().with_attempts(1_000),
        RetryPolicy::backfill(),
        RetryPolicy::fibonacci(),
        RetryPolicy::progressive(),
        RetryPolicy::Progressive { tiers },
        RetryPolicy::Fixed { every: Duration::from_micros(1_500), attempts: 1 },
        RetryPolicy::List { delays: vec![Delay(second), Delay(day)] },
        RetryPolicy::List { delays: vec![] },
        RetryPolicy::Never,
    ];
    for policy in policies {
        let tx = client.transaction().await.unwrap();
        let new = windlass_core::enqueue::NewJob { retry: Some(policy.clone()), ..super::test_store::work() };
        let answer = engine.enqueue_in(&tx, vec![new]).await.unwrap().remove(0);
        tx.commit().await.unwrap();
        let id = answer.job().unwrap_or_else(|why| panic!("{policy:?}: {why}"));
        assert_eq!(job(&engine, id).await.retry, Some(policy.clone()));
        let tries = place
            .ask(&client, "SELECT max_attempts FROM windlass.delayed_jobs ORDER BY id DESC LIMIT 1")
            .await;
        assert_eq!(tries, policy.attempts_max().to_string(), "{policy:?}");
    }
}

/// Creates a role that may use the schema and has further grants, and switches to it.
async fn as_role(place: &TestStore, client: &Client, grants: &str) -> String {
    let role = format!("{}_caller", place.schema);
    let text = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {} TO {role}; {}",
        place.schema,
        place.sql(grants).replace("CALLER", &role)
    );
    client.batch_execute(&text).await.unwrap();
    role
}

#[tokio::test]
async fn a_role_with_a_right_on_the_functions_needs_none_on_the_tables() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let grants =
        "GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.complete TO CALLER";
    let role = as_role(&place, &client, grants).await;
    // A worker waits, so that the notification at commit reads the table of idle workers.
    place
        .ask(&client, "INSERT INTO windlass.waiting VALUES ('main', 'other', now(), '{work}') RETURNING 1")
        .await;
    client.batch_execute(&format!("SET ROLE {role}; SET search_path = public")).await.unwrap();
    call(&place, &client, "'work', key => 'a'").await;
    let read = client.simple_query(&place.sql("SELECT * FROM windlass.delayed_jobs")).await;
    assert_eq!(read.unwrap_err().code().unwrap().code(), "42501");
    client.batch_execute("RESET ROLE").await.unwrap();
    assert_eq!(status(&engine).await.counts.ready, 1);
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_role_that_may_only_read_puts_nothing_in() {
    let place = TestStore::new();
    place.ready().await;
    let client = place.connect().await;
    let role = as_role(&place, &client, "GRANT SELECT ON windlass.delayed_jobs TO CALLER").await;
    client.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
    for text in
        ["enqueue('work')", "enqueue_many('[]')", "complete(1, '00000000-0000-0000-0000-000000000001')"]
    {
        let call = client.simple_query(&place.sql(&format!("SELECT windlass.{text}"))).await;
        assert_eq!(call.unwrap_err().code().unwrap().code(), "42501", "{text}");
    }
    client.batch_execute(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn foreign_objects_in_the_callers_search_path_change_nothing() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    let trap = format!(
        "CREATE SCHEMA {0}_trap;
        CREATE FUNCTION {0}_trap.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'trapped' $$;
        CREATE FUNCTION {0}_trap.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '2000-01-01' $$;
        SET search_path = {0}_trap, pg_catalog",
        place.schema
    );
    client.batch_execute(&trap).await.unwrap();
    call(&place, &client, "'work', queue => 'MAIN', key => 'a', label => 'HIGH'").await;
    assert_eq!(claim(&engine, 1).await[0].job.label.as_ref().unwrap().as_str(), "high");
}
