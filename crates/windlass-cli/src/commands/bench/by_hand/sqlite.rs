//! By hand on SQLite: one connection, prepared statements, batches of 500 that settle what was claimed before
//! and claim the next in one transaction. The tables, indexes and rows are those of the engine, so what differs is
//! what Windlass adds: rules, counts, keys, receipts, wake-ups, handlers.

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use rusqlite::{Connection, params};

use super::super::figures::{Figures, per_second};
use super::super::load::{CALLERS, PAYLOAD_BYTES};
use super::super::progress::Progress;
use super::super::{History, failed};
use super::Part;
use crate::exit::Failure;

const BATCH: i64 = 500;
const BULK_BATCH: u64 = 1_000;

pub(super) fn measure(
    part: Part,
    path: &Path,
    synchronous: &str,
    jobs: u64,
    progress: &Progress,
) -> Result<Figures, Failure> {
    let mut connection = open(path, synchronous).map_err(failed)?;
    run(part, &mut connection, jobs, progress).map_err(failed)
}

fn run(part: Part, connection: &mut Connection, jobs: u64, progress: &Progress) -> rusqlite::Result<Figures> {
    let Part::Drain(history) = part else {
        let single = enqueue_one(connection, jobs / 2)?;
        let bulk = enqueue_bulk(connection, jobs, progress)?;
        let figures = Figures::default().with("limit_single_per_second", single);
        return Ok(figures.with("limit_bulk_per_second", bulk));
    };
    enqueue_bulk(connection, jobs, progress)?;
    Ok(Figures::default().with("limit_jobs_per_second", drain(connection, history, progress)?))
}

/// A file with the tables and indexes of the engine, so that the same rows are written.
fn open(path: &Path, synchronous: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
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
fn enqueue_one(connection: &mut Connection, jobs: u64) -> rusqlite::Result<f64> {
    let (send, receive) = mpsc::sync_channel::<mpsc::SyncSender<()>>(CALLERS as usize);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            let send = send.clone();
            scope.spawn(move || {
                for _ in 0..jobs / CALLERS {
                    let (answer, answered) = mpsc::sync_channel(1);
                    let committed = send.send(answer).is_ok() && answered.recv().is_ok();
                    assert!(committed, "the writer lives until all callers are done");
                }
            });
        }
        drop(send);
        commit_what_gathers(connection, &receive)
    })?;
    Ok(per_second(jobs / CALLERS * CALLERS, started.elapsed()))
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
fn drain(connection: &mut Connection, history: History, progress: &Progress) -> rusqlite::Result<f64> {
    let started = Instant::now();
    let (mut claimed, mut done): (Vec<i64>, u64) = (Vec::new(), 0);
    let mut token = 0_u128;
    loop {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        settle(&transaction, &claimed, token, history == History::On)?;
        done += claimed.len() as u64;
        token += 1;
        claimed = claim(&transaction, token)?;
        transaction.commit()?;
        progress.at(done);
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
