//! Enqueues and completes jobs in the user's own transaction on the same database: a job exists exactly if
//! their writes do, and is done exactly if their writes are. All of it goes through the SQL functions of
//! the schema, which any language can call. A waiting worker is woken when the transaction is committed.

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::{Row, Transaction};
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, Refusal, RequestId, When};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::key::{KeyScope, OnConflict};
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::names::{
    CorrelationId, FairnessKey, GroupName, Key, OrderingKey, PriorityLabel, QueueName, Tag, TypeName,
};
use windlass_core::priority::Priority;
use windlass_core::provenance::Provenance;
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::Settled;

use super::PostgresEngine;
use super::open::check_schema;
use super::sql::Statement;
use super::store_error::StoreResult;
use super::value::{Bits, Instant, instant, number, text, uuid};
use crate::kit::{check_batch_size, to_json};

/// Calls in the caller's transaction, in the engine's schema and by its clock.
impl PostgresEngine {
    /// Enqueues jobs as [`enqueue_in`] does, in this engine's schema. The transaction must be on this
    /// engine's database.
    pub async fn enqueue_in(&self, tx: &Transaction<'_>, jobs: Vec<NewJob>) -> Result<Vec<EnqueueAnswer>> {
        Ok(enqueue(tx, &self.store.sql.enqueue_many, &jobs, None, self.store.now_param()).await?)
    }

    /// Enqueues jobs under a request id. If it is not known whether the transaction was committed,
    /// repeating all of it under the same id within an hour creates no second job.
    pub async fn enqueue_request_in(
        &self,
        tx: &Transaction<'_>,
        request: EnqueueRequest,
    ) -> Result<Vec<EnqueueAnswer>> {
        let (statement, now) = (&self.store.sql.enqueue_many, self.store.now_param());
        Ok(enqueue(tx, statement, &request.jobs, Some(request.request), now).await?)
    }

    /// Completes a job as [`complete_in`] does, in this engine's schema. The transaction must be on this
    /// engine's database.
    pub async fn complete_in(&self, tx: &Transaction<'_>, fence: Fence) -> Result<Settled> {
        Ok(complete(tx, &self.store.sql.complete, fence, self.store.now_param()).await?)
    }
}

/// Enqueues jobs together with the caller's own writes: they are committed or rolled back together. There
/// is no receipt, since the caller's transaction itself says whether it happened. A caller that needs one
/// uses [`PostgresEngine::enqueue_request_in`].
///
/// This is for programs without an engine. `schema` is `windlass` unless the engine was given another. A
/// job with a key waits for an uncommitted transaction that has enqueued a job with the same key. An error
/// ends the transaction, as all errors of PostgreSQL do. A refusal does not: it is an answer.
pub async fn enqueue_in(tx: &Transaction<'_>, schema: &str, jobs: Vec<NewJob>) -> Result<Vec<EnqueueAnswer>> {
    Ok(enqueue(tx, &enqueue_statement(schema)?, &jobs, None, None).await?)
}

/// Completes a job as succeeded together with the caller's own writes, if the claim still holds. If it does
/// not, nothing is written, and the caller should roll back: another worker has the job now.
///
/// A key that the job held is free once the transaction is committed.
pub async fn complete_in(tx: &Transaction<'_>, schema: &str, fence: Fence) -> Result<Settled> {
    Ok(complete(tx, &complete_statement(schema)?, fence, None).await?)
}

pub(super) fn enqueue_statement(schema: &str) -> Result<Statement> {
    check_schema(schema)?;
    Ok(Statement::new(include_str!("sql/enqueue_many.sql"), schema))
}

pub(super) fn complete_statement(schema: &str) -> Result<Statement> {
    check_schema(schema)?;
    Ok(Statement::new(include_str!("sql/complete.sql"), schema))
}

async fn enqueue(
    tx: &Transaction<'_>,
    statement: &Statement,
    jobs: &[NewJob],
    request: Option<RequestId>,
    now: Option<Instant>,
) -> StoreResult<Vec<EnqueueAnswer>> {
    let jobs = written(jobs)?;
    let request = request.map(Bits::from);
    let params = [text(&jobs), uuid(&request), instant(&now)];
    let rows = tx.query_typed(statement.text(), &params).await?;
    rows.iter().map(read_answer).collect()
}

async fn complete(
    tx: &Transaction<'_>,
    statement: &Statement,
    fence: Fence,
    now: Option<Instant>,
) -> StoreResult<Settled> {
    let (id, token) = (fence.job.0, Bits::from(fence.token));
    let params = [number(&id), uuid(&token), instant(&now)];
    let rows = tx.query_typed(statement.text(), &params).await?;
    let is_done = rows.first().map_or(Ok(false), |row| row.try_get(0))?;
    Ok(settled(is_done))
}

pub(super) fn settled(is_done: bool) -> Settled {
    if is_done { Settled::Applied } else { Settled::ClaimLost }
}

fn read_answer(row: &Row) -> StoreResult<EnqueueAnswer> {
    let (answer, id): (&str, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    let (why, refusal): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
    Ok(answered(answer, id, why, refusal))
}

/// Reads an answer of the SQL function. An answer that this version does not know becomes a refusal with
/// its own text.
pub(super) fn answered(
    answer: &str,
    id: Option<i64>,
    why: Option<&str>,
    refusal: Option<&str>,
) -> EnqueueAnswer {
    match (answer, id.map(JobId)) {
        ("new", Some(id)) => EnqueueAnswer::New(id),
        ("duplicate", Some(id)) => EnqueueAnswer::Duplicate(id),
        ("replaced", Some(id)) => EnqueueAnswer::Replaced(id),
        ("revived", Some(id)) => EnqueueAnswer::Revived(id),
        _ => {
            let known = refusal.and_then(|refusal| serde_json::from_str(refusal).ok());
            let told = || Refusal::Malformed { why: why.unwrap_or(answer).to_owned() };
            EnqueueAnswer::Refused(known.unwrap_or_else(told))
        }
    }
}

/// Jobs as the SQL function takes them.
pub(super) fn written(jobs: &[NewJob]) -> Result<String> {
    check_batch_size(ENQUEUE_BATCH_MAX, "jobs", jobs.len())?;
    let objects = jobs.iter().map(Written::of).collect::<Result<Vec<_>>>()?;
    Ok(to_json(&objects))
}

/// A new job under the names of the SQL function. Spans and instants are numbers of seconds.
#[derive(Serialize)]
struct Written<'a> {
    job_type: &'a TypeName,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a QueueName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a PriorityLabel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_conflict: Option<OnConflict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a CorrelationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_group: Option<&'a GroupName>,
    #[serde(skip_serializing_if = "<[Tag]>::is_empty")]
    tags: &'a [Tag],
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<&'a OrderingKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_key: Option<&'a FairnessKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a RetryPolicy>,
    #[serde(flatten)]
    provenance: &'a Provenance,
}

impl<'a> Written<'a> {
    fn of(new: &'a NewJob) -> Result<Self> {
        let payload = serde_json::from_str(new.payload.as_str())
            .map_err(|error| EngineError::Refused(format!("expected the payload to be JSON, got {error}")))?;
        let (delay, run_at) = when(new.when);
        let (expires_in, expires_at) = match new.expires {
            // Unlike a due time, an expiry of now must be written.
            Some(When::Now) => (Some(seconds(0)), None),
            Some(expires) => when(expires),
            None => (None, None),
        };
        Ok(Self {
            job_type: &new.job_type,
            payload,
            queue: new.queue.as_ref(),
            priority: new.priority,
            label: new.label.as_ref(),
            delay,
            run_at,
            expires_in,
            expires_at,
            key: new.key.as_ref().map(|claim| &claim.key),
            key_scope: new.key.as_ref().map(|claim| scope(claim.scope)),
            on_conflict: new.key.as_ref().map(|claim| claim.on_conflict),
            correlation_id: new.correlation.as_ref(),
            job_group: new.group.as_ref(),
            tags: &new.tags,
            ordering_key: new.ordering_key.as_ref(),
            fairness_key: new.fairness_key.as_ref(),
            timeout: new.timeout.map(|timeout| seconds(timeout.as_micros())),
            retry: new.retry.as_ref(),
            provenance: &new.provenance,
        })
    }
}

/// Splits a time into a delay or an instant; a job that is due at once has neither.
fn when(when: When) -> (Option<String>, Option<String>) {
    match when {
        When::Now => (None, None),
        When::In(span) => (Some(seconds(span.as_micros())), None),
        When::At(instant) => (None, Some(since_1970(instant))),
    }
}

fn scope(scope: KeyScope) -> String {
    match scope {
        KeyScope::WhileLive => "while-live".to_owned(),
        KeyScope::WhileLiveOrDead => "while-live-or-dead".to_owned(),
        KeyScope::For(period) => seconds(period.as_micros()),
    }
}

/// Microseconds as a number of seconds.
fn seconds(micros: u128) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn since_1970(instant: Timestamp) -> String {
    let micros = instant.as_micros();
    let sign = if micros < 0 { "-" } else { "" };
    format!("{sign}{}", seconds(u128::from(micros.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_to_the_microsecond_on_both_sides_of_1970() {
        let written = |micros| since_1970(Timestamp::from_micros(micros));
        assert_eq!(written(1_767_225_600_000_001), "1767225600.000001");
        assert_eq!(written(-1), "-0.000001");
        assert_eq!(written(0), "0.000000");
    }

    #[test]
    fn a_refusal_that_this_version_does_not_know_is_told_in_its_words() {
        let answer = answered("refused", None, Some("it is Sunday"), Some(r#"{"Sunday": {}}"#));
        assert_eq!(answer, EnqueueAnswer::Refused(Refusal::Malformed { why: "it is Sunday".to_owned() }));
    }
}
