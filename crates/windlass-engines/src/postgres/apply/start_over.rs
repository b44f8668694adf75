//! Starting over: a dead job waits again, with fresh counters and its key.

use tokio_postgres::Row;
use windlass_core::admin::AttemptEnding;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::names::{FairnessKey, QueueName, TypeName};

use super::super::Store;
use super::super::conn::Tx;
use super::super::counts::Deltas;
use super::super::key::{Holding, TypeKey};
use super::super::ordering_keys::Marked;
use super::super::row;
use super::super::store_error::StoreResult;
use super::super::value::{Bits, Instant, instant, number, text};
use super::{EndedAttempt, names};
use crate::kit::{CountedState, JobOptions, Total, parse_error};

impl Store {
    /// Starts a dead job over with fresh counters, and gives it its key again. The caller has locked its
    /// key. A job with an ordering key waits for its turn.
    pub(in crate::postgres) async fn start_over(
        &self,
        tx: &Tx,
        id: JobId,
        due: Timestamp,
        deltas: &mut Deltas,
    ) -> StoreResult<()> {
        let Some(letter) = self.dead_letter(tx, id).await? else { return Ok(()) };
        if let Some(attempt) = &letter.attempt {
            self.insert_attempts(tx, &[(id, attempt)]).await?;
        }
        let ordering_key: Marked = letter
            .options
            .ordering_key
            .iter()
            .map(|ordering_key| (letter.job_type.clone(), ordering_key.clone()))
            .collect();
        let gate = ordering_key
            .first()
            .map(|(job_type, ordering_key)| Gate::ordering_key(job_type, ordering_key).to_string());
        let name = ordering_key.first().map(|(_, ordering_key)| ordering_key.as_str());
        let due_at = Instant(due);
        let fairness_key = letter.options.fairness_key.as_ref().map(FairnessKey::as_str);
        let params = [number(&id.0), instant(&due_at), text(&name), text(&gate), text(&fairness_key)];
        tx.query(&self.sql.start_over, &params).await?;
        self.mark_ordering_key(tx, &ordering_key).await?;
        if let Some(key) = letter.key {
            let mut holding = Holding::default();
            let key = (letter.job_type.to_string(), key);
            holding.push(key, id, letter.options.scope, letter.enqueued_at);
            self.hold_keys(tx, &holding).await?;
        }
        let kind = (&letter.job_type, &letter.queue);
        deltas.moved(kind, CountedState::Dead, CountedState::waiting(due, gate.is_some()));
        deltas.total(kind, Total::StartedOver);
        Ok(())
    }

    /// Locks a dead job, and reads the fields that starting it over or discarding it needs.
    pub(in crate::postgres) async fn dead_letter(
        &self,
        tx: &Tx,
        id: JobId,
    ) -> StoreResult<Option<DeadLetter>> {
        let rows = tx.query(&self.sql.lock_dead, &[number(&id.0)]).await?;
        rows.first().map(read_dead_letter).transpose()
    }
}

/// A dead job, with the fields that starting it over or discarding it needs.
#[derive(Debug)]
pub(in crate::postgres) struct DeadLetter {
    pub(in crate::postgres) job_type: TypeName,
    pub(in crate::postgres) queue: QueueName,
    pub(in crate::postgres) key: Option<String>,
    pub(in crate::postgres) options: JobOptions,
    pub(in crate::postgres) enqueued_at: Timestamp,
    attempt: Option<EndedAttempt>,
}

impl DeadLetter {
    pub(in crate::postgres) fn type_key(&self) -> Option<TypeKey> {
        Some((self.job_type.to_string(), self.key.clone()?))
    }
}

fn read_dead_letter(row: &Row) -> StoreResult<DeadLetter> {
    let (job_type, queue) = names(row, 0, 1)?;
    let worker: Option<Bits> = row.try_get(6)?;
    let ending = row.try_get::<_, Option<&str>>(9)?.and_then(AttemptEnding::parse);
    let error: Option<&str> = row.try_get(10)?;
    let attempt = match (ending, worker) {
        (Some(ending), Some(worker)) => Some(EndedAttempt {
            number: row::unsigned(row.try_get(5)?),
            worker: worker.into(),
            started_at: row::instant(row, 7)?,
            ended_at: row::instant(row, 8)?,
            ending,
            error: error.map(parse_error),
            output: row.try_get(11)?,
        }),
        _ => None,
    };
    Ok(DeadLetter {
        job_type,
        queue,
        key: row.try_get(2)?,
        options: JobOptions::from_column(row.try_get(3)?),
        enqueued_at: row::instant(row, 4)?,
        attempt,
    })
}
