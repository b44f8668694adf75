//! The baseline on SQLite: one connection, prepared statements, batches of 500. One transaction settles a
//! batch and claims the next. The tables, indexes and rows are those of the engine, so the difference is what
//! Windlass adds: rules, counts, keys, receipts, notifications, handlers.

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::Result;
use rusqlite::{Connection, params};

use super::Part;
use crate::History;
use crate::figures::{Figures, per_second};
use crate::workload::{CALLERS, PAYLOAD_BYTES};

const BATCH: i64 = 500;
const BULK_BATCH: u64 = 1_000;

pub(super) fn measure(part: Part, path: &Path, synchronous: &str, jobs: u64) -> Result<Figures> {
    let mut connection = open(path, synchronous)?;
    let Part::Drain(history) = part else {
        let single = enqueue_single(&mut connection, jobs / 2)?;
        let bulk = enqueue_bulk(&mut connection, jobs)?;
        let figures = Figures::default().with("limit_single_per_second", single);
        return Ok(figures.with("limit_bulk_per_second", bulk));
    };
    enqueue_bulk(&mut connection, jobs)?;
    Ok(Figures::default().with("limit_jobs_per_second", drain(&mut connection, history)?))
}

/// Opens a file that has the tables and indexes of the engine.
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
const DELETE: &str = "DELETE FROM delayed_jobs WHERE id = ?1 AND token = ?2";

/// Callers that each wait for their own commit. One thread commits together what they have sent meanwhile.
fn enqueue_single(connection: &mut Connection, jobs: u64) -> rusqlite::Result<f64> {
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
        commit_in_groups(connection, &receive)
    })?;
    Ok(per_second(jobs / CALLERS * CALLERS, started.elapsed()))
}

fn commit_in_groups(
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

fn enqueue_bulk(connection: &mut Connection, jobs: u64) -> rusqlite::Result<f64> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    let started = Instant::now();
    let mut enqueued = 0;
    while enqueued < jobs {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for _ in 0..BULK_BATCH.min(jobs - enqueued) {
                insert.execute(params![1, payload])?;
            }
        }
        transaction.commit()?;
        enqueued += BULK_BATCH.min(jobs - enqueued);
    }
    Ok(per_second(jobs, started.elapsed()))
}

/// Settles the last batch and claims the next, until no job is left.
fn drain(connection: &mut Connection, history: History) -> rusqlite::Result<f64> {
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
    let mut delete = transaction.prepare_cached(DELETE)?;
    for id in claimed {
        if history {
            keep.execute(params![id, token.to_be_bytes()])?;
        }
        delete.execute(params![id, token.to_be_bytes()])?;
    }
    Ok(())
}

fn claim(transaction: &rusqlite::Transaction<'_>, token: u128) -> rusqlite::Result<Vec<i64>> {
    let mut claim = transaction.prepare_cached(CLAIM)?;
    let rows = claim.query_map(params![token.to_be_bytes(), BATCH], |row| {
        // A handler needs the payload, so the baseline reads it too.
        let payload: String = row.get(1)?;
        std::hint::black_box(payload);
        row.get(0)
    })?;
    rows.collect()
}
