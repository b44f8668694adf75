//! By hand on SQLite: one connection, prepared statements, batches of 500 that settle what was claimed before
//! and claim the next in one transaction. The tables, indexes and rows are those of the engine, so what differs is
//! what Windlass adds: rules, counts, keys, receipts, wake-ups, handlers.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use windlass::engines::sqlite::{SqliteEngine, SqliteOptions};

use crate::exit::{Code, Failure};

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
) -> Result<Figures, Failure> {
    let [single, kept, forgotten] =
        ["hand-single", "hand-kept", "hand-forgotten"].map(|name| open(scratch, name, synchronous));
    run([single?, kept?, forgotten?], jobs, progress)
        .map_err(|why| Failure::new(Code::Failed, format!("the work by hand failed: {why}")))
}

fn run(files: [Connection; 3], jobs: u64, progress: &Progress) -> rusqlite::Result<Figures> {
    let [single, mut kept_file, mut forgotten_file] = files;
    progress.part("by hand: single inserts", SINGLES);
    let singles = enqueue_one(single)?;
    progress.part("by hand: bulk and drain", jobs * 2);
    let bulk = enqueue_bulk(&mut kept_file, jobs, progress)?;
    let kept = drain(&mut kept_file, jobs, true, progress)?;
    enqueue_bulk(&mut forgotten_file, jobs, progress)?;
    let forgotten = drain(&mut forgotten_file, jobs, false, progress)?;
    Ok(Figures {
        enqueue_one_per_s: Some(singles),
        enqueue_bulk_per_s: Some(bulk),
        drain_per_s: Some(kept),
        drain_without_history_per_s: Some(forgotten),
        ..Figures::default()
    })
}

/// A fresh file with the tables and indexes of the engine, so that the same rows are written.
fn open(scratch: &Scratch, name: &str, synchronous: &str) -> Result<Connection, Failure> {
    drop(SqliteEngine::open(scratch.file(name), SqliteOptions::default())?);
    let failed = |why: rusqlite::Error| Failure::new(Code::Failed, format!("the work by hand failed: {why}"));
    let connection = Connection::open(scratch.file(name)).map_err(failed)?;
    connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
    connection.pragma_update(None, "cache_size", -16_000).map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000).map_err(failed)?;
    Ok(connection)
}

const INSERT: &str =
    "INSERT INTO delayed_jobs (type, priority, payload, enqueued_at, due) VALUES (1, 5, ?2, ?1, ?1)";
const CLAIM: &str =
    "UPDATE delayed_jobs SET worker = x'01', token = ?1, since = 2, boosted = 0, attempts = attempts + 1
    WHERE id IN (
        SELECT id FROM delayed_jobs
        WHERE gate IS NULL AND worker IS NULL AND type = 1 AND priority = 5 AND due <= 2
        ORDER BY due, id LIMIT ?2
    )
    RETURNING id, payload";
const KEEP: &str = "INSERT INTO job_history
    SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
        attempts, failures, crashes, holds, progress, last_error, token, 1, 4, NULL, NULL, 3, worker, 2, 'succeeded',
        NULL, NULL
    FROM delayed_jobs WHERE id = ?1 AND token = ?2";
const LEAVE: &str = "DELETE FROM delayed_jobs WHERE id = ?1 AND token = ?2";

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
    let mut keep = transaction.prepare_cached(KEEP)?;
    let mut leave = transaction.prepare_cached(LEAVE)?;
    for id in claimed {
        if history {
            keep.execute(params![id, token.to_be_bytes()])?;
        }
        leave.execute(params![id, token.to_be_bytes()])?;
    }
    Ok(())
}

fn claim(transaction: &rusqlite::Transaction<'_>, token: u128) -> rusqlite::Result<Vec<i64>> {
    let mut claim = transaction.prepare_cached(CLAIM)?;
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
