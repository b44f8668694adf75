//! By hand on SQLite: one connection, prepared statements, batches of 500 that settle what was claimed before
//! and claim the next in one transaction, a row in the history for each job.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::super::figures::Figures;
use super::super::measure::{CALLERS, PAYLOAD_BYTES};
use super::super::progress::Progress;
use super::super::scratch::Scratch;

const BATCH: i64 = 500;
const BULK_BATCH: u64 = 1_000;
const SINGLES: u64 = 20_000;

/// Measures everything that can be written by hand in a page.
pub(in super::super) fn measure(
    scratch: &Scratch,
    synchronous: &str,
    jobs: u64,
    progress: &Progress,
) -> rusqlite::Result<Figures> {
    progress.part("by hand: single inserts", SINGLES);
    let singles = enqueue_one(open(scratch, "hand-single", synchronous)?)?;
    progress.part("by hand: bulk and drain", jobs * 2);
    let mut connection = open(scratch, "hand-kept", synchronous)?;
    let bulk = enqueue_bulk(&mut connection, jobs, progress)?;
    let kept = drain(&mut connection, jobs, true, progress)?;
    let mut connection = open(scratch, "hand-forgotten", synchronous)?;
    enqueue_bulk(&mut connection, jobs, progress)?;
    let forgotten = drain(&mut connection, jobs, false, progress)?;
    Ok(Figures {
        enqueue_one_per_s: Some(singles),
        enqueue_bulk_per_s: Some(bulk),
        drain_per_s: Some(kept),
        drain_without_history_per_s: Some(forgotten),
        ..Figures::default()
    })
}

fn open(scratch: &Scratch, name: &str, synchronous: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(scratch.file(name))?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {synchronous};
         CREATE TABLE jobs (
             id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, type INTEGER NOT NULL, priority INTEGER NOT NULL,
             due INTEGER NOT NULL, enqueued_at INTEGER NOT NULL, payload TEXT NOT NULL,
             attempts INTEGER NOT NULL DEFAULT 0, worker INTEGER, token BLOB
         );
         CREATE INDEX ready ON jobs (queue, priority, due, id) WHERE worker IS NULL;
         CREATE TABLE history (
             id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, type INTEGER NOT NULL, priority INTEGER NOT NULL,
             due INTEGER NOT NULL, enqueued_at INTEGER NOT NULL, payload TEXT NOT NULL, attempts INTEGER NOT NULL,
             worker INTEGER, token BLOB, started_at INTEGER NOT NULL, finished_at INTEGER NOT NULL,
             keep_until INTEGER NOT NULL
         );
         CREATE INDEX to_prune ON history (keep_until);"
    ))?;
    Ok(connection)
}

const INSERT: &str =
    "INSERT INTO jobs (queue, type, priority, due, enqueued_at, payload) VALUES (1, 1, 5, ?1, ?1, ?2)";

/// Callers who each wait for their own commit; one thread commits what gathered meanwhile.
fn enqueue_one(mut connection: Connection) -> rusqlite::Result<f64> {
    let (send, receive) = mpsc::sync_channel::<mpsc::SyncSender<()>>(CALLERS as usize);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            let send = send.clone();
            scope.spawn(move || {
                for _ in 0..SINGLES / CALLERS {
                    let (answer, answered) = mpsc::sync_channel(1);
                    let committed = send.send(answer).is_ok() && answered.recv().is_ok();
                    assert!(committed, "the writer lives until all callers are done");
                }
            });
        }
        drop(send);
        commit_what_gathers(&mut connection, &receive)
    })?;
    Ok(per_second(SINGLES / CALLERS * CALLERS, started.elapsed()))
}

fn commit_what_gathers(
    connection: &mut Connection,
    inserts: &mpsc::Receiver<mpsc::SyncSender<()>>,
) -> rusqlite::Result<()> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    while let Ok(first) = inserts.recv() {
        let transaction = connection.transaction()?;
        let mut waiting = Vec::new();
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for answer in std::iter::once(first).chain(inserts.try_iter()) {
                insert.execute(params![1, payload])?;
                waiting.push(answer);
            }
        }
        transaction.commit()?;
        for answer in waiting {
            let _ = answer.send(());
        }
    }
    Ok(())
}

fn enqueue_bulk(connection: &mut Connection, jobs: u64, progress: &Progress) -> rusqlite::Result<f64> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    let started = Instant::now();
    let mut put_in = 0;
    while put_in < jobs {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for _ in 0..BULK_BATCH.min(jobs - put_in) {
                insert.execute(params![1, payload])?;
            }
        }
        transaction.commit()?;
        put_in += BULK_BATCH.min(jobs - put_in);
        progress.at(put_in);
    }
    Ok(per_second(jobs, started.elapsed()))
}

/// Settles the last batch and claims the next, until nothing is left.
fn drain(
    connection: &mut Connection,
    jobs: u64,
    history: bool,
    progress: &Progress,
) -> rusqlite::Result<f64> {
    let started = Instant::now();
    let (mut claimed, mut done): (Vec<i64>, u64) = (Vec::new(), 0);
    let mut token = 0_u128;
    loop {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        settle(&transaction, &claimed, token, history)?;
        done += claimed.len() as u64;
        token += 1;
        claimed = claim(&transaction, token)?;
        transaction.commit()?;
        progress.at(jobs + done);
        if claimed.is_empty() {
            return Ok(per_second(done, started.elapsed()));
        }
    }
}

fn settle(
    transaction: &rusqlite::Transaction<'_>,
    claimed: &[i64],
    token: u128,
    history: bool,
) -> rusqlite::Result<()> {
    let mut keep = transaction.prepare_cached(
        "INSERT INTO history SELECT id, queue, type, priority, due, enqueued_at, payload, attempts, worker, token, 2, 3, 4
         FROM jobs WHERE id = ?1 AND token = ?2",
    )?;
    let mut delete = transaction.prepare_cached("DELETE FROM jobs WHERE id = ?1 AND token = ?2")?;
    for id in claimed {
        if history {
            keep.execute(params![id, token.to_be_bytes()])?;
        }
        delete.execute(params![id, token.to_be_bytes()])?;
    }
    Ok(())
}

fn claim(transaction: &rusqlite::Transaction<'_>, token: u128) -> rusqlite::Result<Vec<i64>> {
    let mut claim = transaction.prepare_cached(
        "UPDATE jobs SET worker = 1, token = ?1, attempts = attempts + 1
         WHERE id IN (SELECT id FROM jobs WHERE queue = 1 AND worker IS NULL ORDER BY priority, due, id LIMIT ?2)
         RETURNING id, payload",
    )?;
    let rows = claim.query_map(params![token.to_be_bytes(), BATCH], |row| {
        // A handler needs the payload, so the work by hand reads it too.
        let payload: String = row.get(1)?;
        std::hint::black_box(payload);
        row.get(0)
    })?;
    rows.collect()
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
