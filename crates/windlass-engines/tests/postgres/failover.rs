//! The server dies and its standby takes over, under load.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::job::{JobId, JobState};
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass_servers::postgres::Server;

use super::workers::words::{queue, request};
use super::{TestStore, claim, enqueue, eventually, make_ready, new_job, quick};

/// Starts a server whose commits wait for its standby.
fn pair() -> (Server, Server) {
    let first = Server::start(&quick()).unwrap();
    let second = first.standby(&quick()).unwrap();
    first.psql("ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
    first.psql("SELECT pg_reload_conf()").unwrap();
    let followed = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    eventually("a standby that follows", || (first.psql(followed).unwrap() == "1").then_some(()));
    (first, second)
}

fn both(first: &Server, second: &Server) -> String {
    let ports = [first, second].map(|server| format!("127.0.0.1:{}", server.address().port()));
    format!("postgres://postgres@{}/postgres?target_session_attrs=read-write", ports.join(","))
}

/// Enqueues jobs one by one, each until it is acknowledged, and reports the acknowledged ids.
async fn produce(engine: Arc<PostgresEngine>, told: watch::Sender<Vec<JobId>>, stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let sent = request(vec![new_job()]);
        let answers = loop {
            match engine.enqueue(sent.clone()).await {
                Ok(answers) => break answers,
                // may sleep: no signal says when the other server accepts writes, so the producer repeats
                // its call.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        told.send_modify(|acknowledged| acknowledged.extend(answers[0].job()));
    }
}

async fn until_more_than(acknowledged: &mut watch::Receiver<Vec<JobId>>, count: usize) -> usize {
    let enough = acknowledged.wait_for(|ids| ids.len() > count);
    tokio::time::timeout(super::WAIT_MAX, enough).await.expect("in time").unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_standby_takes_over_nothing_that_was_acknowledged_is_lost_and_work_goes_on_by_itself() {
    let (mut first, second) = pair();
    let place = TestStore::on(both(&first, &second));
    let engine = Arc::new(place.open().await);
    make_ready(&engine).await;
    let (told, mut acknowledged) = watch::channel(Vec::new());
    let (stop, stopped) = watch::channel(false);
    let producing = tokio::spawn(produce(engine.clone(), told, stopped));
    until_more_than(&mut acknowledged, 50).await;
    let running = claim(&engine, 10).await;
    let (done, held) = running.split_at(5);
    let success = |claimed: &windlass_core::claim::Claimed| {
        claimed.clone().settled(Transition::Succeed { result: None }, AttemptReport::default())
    };
    assert_eq!(engine.settle(done.iter().map(success).collect()).await.unwrap(), [Settled::Applied; 5]);

    first.kill().unwrap();
    second.promote().unwrap();
    let before = acknowledged.borrow().len();
    until_more_than(&mut acknowledged, before + 20).await;
    stop.send_replace(true);
    producing.await.unwrap();

    // Claims need not have reached the standby: each claimed job is either still held or waits again.
    let ends = engine.settle(held.iter().map(success).collect()).await.unwrap();
    let applied = ends.iter().filter(|end| **end == Settled::Applied).count();
    let mut ended = 5 + applied;
    loop {
        let jobs = claim(&engine, 100).await;
        if jobs.is_empty() {
            break;
        }
        ended += jobs.len();
        engine.settle(jobs.iter().map(success).collect()).await.unwrap();
    }
    let all = acknowledged.borrow().clone();
    for id in &all {
        let job = engine.job(*id).await.unwrap().unwrap_or_else(|| panic!("job {id} was acknowledged"));
        assert_eq!(job.job_state(), JobState::Succeeded, "job {id}");
    }
    assert!(ended >= all.len(), "{ended} ends of {} jobs", all.len());
    let stored =
        second.psql(&format!("SELECT count(*), count(DISTINCT id) FROM {}.job_history", place.schema));
    let stored = stored.unwrap();
    let (count, distinct) = stored.split_once('|').unwrap();
    assert_eq!(count, distinct, "each job ended once");
}

/// The case of an operator who moves the work to another server without stopping the first: the first can
/// be read, and no connection to it breaks.
#[tokio::test(flavor = "multi_thread")]
async fn when_a_server_takes_no_writes_any_more_the_next_call_finds_the_one_that_does() {
    let (first, second) = pair();
    let place = TestStore::on(both(&first, &second));
    let periods = Periods { probe_every: Duration::from_millis(200), ..Periods::default() };
    let engine = Arc::new(place.open_with(PostgresOptions { periods, ..place.options() }).await);
    make_ready(&engine).await;
    // Several connections, each of which would have to fail once.
    let many = (0..6).map(|_| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.enqueue(request(vec![new_job()])).await })
    });
    for put in many.collect::<Vec<_>>() {
        put.await.unwrap().unwrap();
    }
    first.psql("ALTER SYSTEM SET default_transaction_read_only = on").unwrap();
    first.psql("SELECT pg_reload_conf()").unwrap();
    // New sessions find the server read-only, and the existing ones have received the setting.
    let shown = "SHOW default_transaction_read_only";
    eventually("the first server accepts no writes", || (first.psql(shown).unwrap() == "on").then_some(()));
    second.promote().unwrap();
    let sent = request(vec![new_job()]);
    let refused = engine.enqueue(sent.clone()).await.unwrap_err();
    assert!(refused.is_passing() && refused.to_string().contains("takes no writes"), "{refused}");
    let answers = engine.enqueue(sent).await.expect("no connection leads to the first server any more");
    let id = answers[0].job().unwrap();
    let there = format!("SELECT count(*) FROM {}.delayed_jobs WHERE id = {}", place.schema, id.0);
    assert_eq!(second.psql(&there).unwrap(), "1");
    let succeed = claim(&engine, 10).await;
    assert_eq!(succeed.len(), 7, "every other call works on the second server, too");
    let listens = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query SIMILAR TO '(LISTEN|%pg_notify)%{}%' AND pid <> pg_backend_pid()",
        place.schema
    );
    eventually("the engine listens on the server that accepts writes", || {
        (second.psql(&listens).unwrap() == "1").then_some(())
    });
}

/// The case after a standby that lagged took over, or after a backup was restored.
#[tokio::test]
async fn a_store_that_knows_less_than_this_process_remembers_is_worked_with_as_it_is() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let version = place.sql("SELECT version FROM windlass.catalogue");
    engine.pause(&queue(), None, None).await.unwrap();
    place.sql("UPDATE windlass.queues SET pause = NULL");
    place.sql(&format!("UPDATE windlass.catalogue SET version = {version}"));
    assert_eq!(enqueue(&engine, 1).await.len(), 1);
    assert_eq!(claim(&engine, 1).await.len(), 1);
}

#[tokio::test]
async fn a_lost_change_of_queues_is_not_taken_for_the_one_that_came_after_it() {
    let place = TestStore::shared();
    let (engine, other) = (place.ready().await, place.open().await);
    let version = place.sql("SELECT version FROM windlass.catalogue");
    engine.pause(&queue(), None, None).await.unwrap();
    let lost = place.sql("SELECT version FROM windlass.catalogue");
    place.sql("UPDATE windlass.queues SET pause = NULL");
    place.sql(&format!("UPDATE windlass.catalogue SET version = {version}"));
    other.set_shut(&queue(), true).await.unwrap();
    assert_ne!(place.sql("SELECT version FROM windlass.catalogue"), lost);
    let answers = engine.enqueue(request(vec![new_job()])).await.unwrap();
    assert!(matches!(&answers[..], [EnqueueAnswer::Refused(_)]), "{answers:?}");
}
