//! Enqueues and completes jobs in a transaction of `sqlx`, together with the writes of the application. It
//! is the counterpart of [`enqueue_in`](super::enqueue_in) and [`complete_in`](super::complete_in) for
//! `tokio-postgres`.
//!
//! The functions of the schema do all the work, as they do for every other language. This module calls them
//! by `sqlx`.

use sqlx::postgres::{PgDatabaseError, PgRow, Postgres};
use sqlx::{AssertSqlSafe, Row, Transaction};
use windlass_core::claim::Fence;
use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId};
use windlass_core::error::EngineError;
use windlass_core::settle::Settled;

use super::inside::{answered, complete_statement, enqueue_statement, settled, written};
use super::store_error::server_error;

/// Enqueues jobs together with the caller's own writes: they are committed or rolled back together. There
/// is no receipt, since the caller's transaction itself says whether it happened. A caller that needs one
/// uses [`enqueue_request_in`].
///
/// `schema` is `windlass` unless the engine was given another. A job with a key waits for an uncommitted
/// transaction that has enqueued a job with the same key. An error ends the transaction, as all errors of
/// PostgreSQL do. A refusal does not: it is an answer.
pub async fn enqueue_in(
    tx: &mut Transaction<'_, Postgres>,
    schema: &str,
    jobs: Vec<NewJob>,
) -> Result<Vec<EnqueueAnswer>> {
    enqueue(tx, schema, &jobs, None).await
}

/// Enqueues jobs under a request id. If it is not known whether the transaction was committed, repeating
/// all of it under the same id within an hour creates no second job.
pub async fn enqueue_request_in(
    tx: &mut Transaction<'_, Postgres>,
    schema: &str,
    request: EnqueueRequest,
) -> Result<Vec<EnqueueAnswer>> {
    enqueue(tx, schema, &request.jobs, Some(request.request)).await
}

/// Completes a job as succeeded together with the caller's own writes, if the claim still holds. If it does
/// not, nothing is written, and the caller should roll back: another worker has the job now.
///
/// A key that the job held is free once the transaction is committed.
pub async fn complete_in(tx: &mut Transaction<'_, Postgres>, schema: &str, fence: Fence) -> Result<Settled> {
    let statement = complete_statement(schema)?;
    let row = sqlx::query(AssertSqlSafe(statement.text()))
        .bind(fence.job.0)
        .bind(uuid(fence.token.to_bytes()))
        .bind(NOW)
        .fetch_one(&mut **tx)
        .await
        .map_err(fault)?;
    Ok(settled(row.try_get(0).map_err(fault)?))
}

/// The server's clock decides.
const NOW: Option<&str> = None;

async fn enqueue(
    tx: &mut Transaction<'_, Postgres>,
    schema: &str,
    jobs: &[NewJob],
    request: Option<RequestId>,
) -> Result<Vec<EnqueueAnswer>> {
    let statement = enqueue_statement(schema)?;
    let rows = sqlx::query(AssertSqlSafe(statement.text()))
        .bind(written(jobs)?)
        .bind(request.map(|request| uuid(request.to_bytes())))
        .bind(NOW)
        .fetch_all(&mut **tx)
        .await
        .map_err(fault)?;
    rows.iter().map(|row| read_answer(row).map_err(fault)).collect()
}

fn read_answer(row: &PgRow) -> std::result::Result<EnqueueAnswer, sqlx::Error> {
    let (answer, id): (&str, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(answered(answer, id, row.try_get(2)?, row.try_get(3)?))
}

/// An id as text, which the statement casts: the library's own type for it is a feature that a caller may
/// not want.
fn uuid(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// The server's error, or an unknown outcome: the caller's transaction shows what was written.
fn fault(error: sqlx::Error) -> EngineError {
    match error.as_database_error().and_then(|said| said.try_downcast_ref::<PgDatabaseError>()) {
        Some(said) => server_error(said.code(), said.message(), said.hint(), said.constraint()),
        None => EngineError::Unavailable { why: error.to_string() },
    }
}
