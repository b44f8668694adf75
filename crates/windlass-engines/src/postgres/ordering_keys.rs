//! Ordering keys: the marks of enqueued and ended jobs, and the jobs that are released because of them. For
//! why the two are apart, see `migrations/0001_schema/ordering_keys.sql`.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{Counters, JobId};
use windlass_core::names::{OrderingKey, QueueName, TypeName};
use windlass_core::priority::Priority;

use super::Store;
use super::apply::Moved;
use super::claim_cursor::before_all;
use super::conn::Tx;
use super::store_error::StoreResult;
use super::value::{Instant, int4, number, small_number, text, texts};

/// Ordering keys whose next job may be released.
pub(super) type Marked = BTreeSet<(TypeName, OrderingKey)>;

/// How many marks one transaction handles, and how many such transactions follow each other.
const MARKS_AT_ONCE: u32 = 500;
const ROUNDS_MAX: u32 = 20;
/// How many ordering keys go on in one transaction, which holds a lock for each.
const ORDERING_KEY_AT_ONCE: usize = 50;
/// The pauses after which a client tries again where another session is handling an ordering key: mostly,
/// the other commit is over by then.
const AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(50)];

/// The result of handling marks.
#[derive(Debug, Default)]
struct Advanced {
    /// Ordering keys that another session is handling.
    busy: Marked,
    /// The mark behind which there may be others.
    more_behind: Option<i64>,
}

impl Store {
    /// Marks ordering keys in a transaction: their next job may be released once it is committed.
    pub(super) async fn mark_ordering_key(&self, tx: &Tx, ordering_key: &Marked) -> StoreResult<()> {
        if ordering_key.is_empty() {
            return Ok(());
        }
        let (types, names) = columns(ordering_key);
        tx.query(&self.sql.mark_ordering_key, &[texts(&types), texts(&names)]).await?;
        Ok(())
    }

    /// Releases the next jobs of these ordering keys, if the commit that marked them did not, because
    /// another session was handling them. If that fails, the marks stay, and a scan or a sweep goes on with
    /// them: the committed part stands. Either way this process learns which jobs were released, since they
    /// may lie behind the claim cursors. `is_news` says whether a job that was released already is new
    /// here.
    pub(super) async fn advance_keys(
        &self,
        ordering_key: &Marked,
        is_news: impl Fn(JobId) -> bool + Send + Sync,
    ) {
        let all: Vec<_> = ordering_key.iter().cloned().collect();
        for some in all.chunks(ORDERING_KEY_AT_ONCE) {
            if let Err(fault) = self.advance_chunk(some.iter().cloned().collect(), &is_news).await {
                tracing::debug!(?fault, "advancing ordering keys failed; the next scan tries again");
            }
        }
    }

    async fn advance_chunk(
        &self,
        mut ordering_key: Marked,
        is_news: &(impl Fn(JobId) -> bool + Send + Sync),
    ) -> StoreResult<()> {
        ordering_key = self.advance(Some(&ordering_key), 0, is_news).await?.busy;
        for pause in AGAIN_AFTER {
            if ordering_key.is_empty() {
                break;
            }
            // may sleep: no notification says when another session's commit is over.
            tokio::time::sleep(pause).await;
            ordering_key = self.advance(Some(&ordering_key), 0, is_news).await?.busy;
        }
        Ok(())
    }

    /// Handles marks that other sessions have left: a process that died before it went on, or a transaction
    /// of the application, which knows nothing of marks.
    pub(super) async fn handle_marks(&self) -> StoreResult<()> {
        let mut behind = 0;
        for _ in 0..ROUNDS_MAX {
            match self.advance(None, behind, &|_| false).await?.more_behind {
                Some(last) => behind = last,
                None => break,
            }
        }
        Ok(())
    }

    async fn advance(
        &self,
        ordering_key: Option<&Marked>,
        behind: i64,
        is_news: &(impl Fn(JobId) -> bool + Send + Sync),
    ) -> StoreResult<Advanced> {
        let (types, names) = ordering_key.map(columns).unzip();
        let at_most = int4(MARKS_AT_ONCE);
        // Core's decision on the gate of a job that goes on after it ever crashed.
        let after_a_crash = gate_by_history(&Counters { crashes: 1, ..Counters::default() });
        let after_a_crash = after_a_crash.as_ref().map(Gate::as_str);
        let params =
            [texts(&types), texts(&names), number(&behind), small_number(&at_most), text(&after_a_crash)];
        let rows = self.work.get().await?.execute(&self.sql.advance_ordering_key, &params).await?;
        let (mut moved, mut advanced) = (Moved::default(), Advanced::default());
        for row in &rows {
            match row.try_get(0)? {
                "busy" => advanced.busy.extend(ordering_key_of(row)?),
                "more" => advanced.more_behind = row.try_get(6)?,
                "out" if !is_news(JobId(row.try_get(6)?)) => {}
                _ => note_out(row, &mut moved)?,
            }
        }
        self.publish_requeued(&moved);
        Ok(advanced)
    }

    /// The released job of an ordering key.
    pub(super) async fn head_of(
        &self,
        job_type: TypeName,
        ordering_key: OrderingKey,
    ) -> StoreResult<Option<JobId>> {
        let (job_type, ordering_key) = (job_type.as_str(), ordering_key.as_str());
        let ids = self.ids(&self.sql.ordering_key_out, &[text(&job_type), text(&ordering_key)]).await?;
        Ok(ids.first().copied().map(JobId))
    }
}

fn columns(ordering_key: &Marked) -> (Vec<&str>, Vec<&str>) {
    ordering_key.iter().map(|(job_type, ordering_key)| (job_type.as_str(), ordering_key.as_str())).unzip()
}

/// The ordering key that a row names, if its names can be read.
fn ordering_key_of(row: &Row) -> StoreResult<Option<(TypeName, OrderingKey)>> {
    let names = (TypeName::parse(row.try_get(1)?), OrderingKey::parse(row.try_get(2)?));
    Ok(match names {
        (Ok(job_type), Ok(ordering_key)) => Some((job_type, ordering_key)),
        _ => None,
    })
}

/// Notes a released job: it may lie behind the claim cursors.
fn note_out(row: &Row, moved: &mut Moved) -> StoreResult<()> {
    let priority = Priority::new(row.try_get::<_, i16>(4)?.into());
    if let (Ok(queue), Ok(priority)) = (QueueName::parse(row.try_get(3)?), priority) {
        moved.requeued.push((queue.clone(), priority, before_all(row.try_get::<_, Instant>(5)?.0)));
        moved.queues.insert(queue);
    }
    Ok(())
}
