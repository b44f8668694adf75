//! What another program does in its own transaction reaches a running worker.

use std::time::{Duration, Instant};

use windlass::core::admin::{CancelAnswer, ListRequest};
use windlass::core::job::Phase;
use windlass::{JobId, WorkerOptions};
use windlass_servers::postgres::Session;

use crate::bench::{Act, Bench};

/// How long an idle worker may take from a commit to the start of the handler.
const PICKED_UP_WITHIN: Duration = Duration::from_millis(10);
/// Commits that are measured together: the middle one counts, since a busy machine delays some.
const COMMITS: usize = 21;
/// A busy machine may delay most of one round, and not of all. A worker that nobody wakes is late in each.
const ROUNDS: usize = 5;

/// A heartbeat would bring it too, but only after ten.
const SOON: Duration = Duration::from_secs(2);

fn put(schema: &str) -> String {
    format!(r#"BEGIN; SELECT {schema}.enqueue('act', '"Succeed"');"#)
}

/// From the moment in which a program asks to commit until the handler starts: the commit itself is in it.
async fn commit_to_start(psql: &mut Session, schema: &str, bench: &mut Bench) -> Duration {
    let id = JobId(psql.run(&put(schema)).expect("it is taken").parse().expect("a number"));
    let asked = Instant::now();
    psql.send("COMMIT;").expect("psql reads");
    assert_eq!(bench.started().await, (id, 1));
    asked.elapsed()
}

#[tokio::test]
async fn what_psql_rolls_back_leaves_nothing_and_what_it_commits_is_picked_up_within_10_ms() {
    let schema = crate::fresh_schema();
    let mut bench = Bench::on(crate::open(&schema), WorkerOptions::default()).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&put(&schema)).expect("it is taken");
    psql.run("ROLLBACK;").expect("it is undone");
    let mut medians = Vec::new();
    while medians.last().is_none_or(|median| *median >= PICKED_UP_WITHIN) {
        assert!(medians.len() < ROUNDS, "expected a median below {PICKED_UP_WITHIN:?}, got {medians:?}");
        let mut took = Vec::new();
        for _ in 0..COMMITS {
            // may sleep: the worker has to be idle, and past the looks that it takes when it begins to wait. The
            // time differs, so that none of its later looks falls on the commit each time.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(300..600))).await;
            took.push(commit_to_start(&mut psql, &schema, &mut bench).await);
        }
        took.sort();
        medians.push(took[COMMITS / 2]);
        println!("fastest {:?}, median {:?}, slowest {:?}", took[0], took[COMMITS / 2], took[COMMITS - 1]);
    }
    let request = ListRequest { limit: 500, ..ListRequest::default() };
    let known = bench.engine.list(request).await.expect("the server is up").len();
    assert_eq!(known, medians.len() * COMMITS, "what was rolled back is not there");
    assert!(bench.told.try_recv().is_err(), "and did not run");
}

#[tokio::test]
async fn a_cancel_from_another_process_reaches_the_handler_within_about_a_second() {
    let schema = crate::fresh_schema();
    let mut bench = Bench::on(crate::open(&schema), WorkerOptions::default()).await;
    let elsewhere = crate::open(&schema);
    for _ in 0..3 {
        let id = bench.put(Act::WaitForCancel).await;
        bench.started().await;
        let asked = Instant::now();
        assert_eq!(elsewhere.cancel(id, "not needed").await.unwrap(), CancelAnswer::Requested);
        bench.until(id, Phase::Cancelled).await;
        assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    }
}
