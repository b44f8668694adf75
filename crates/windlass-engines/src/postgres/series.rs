//! Series: marks that something came in or ended, and who goes out because of them. See `migrations/0007_series.sql` for why the
//! two are apart.

use std::collections::BTreeSet;

use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{Counters, JobId};
use windlass_core::names::{QueueName, SeriesName, TypeName};
use windlass_core::priority::Priority;

use super::Store;
use super::conn::Tx;
use super::fault::Step;
use super::land::Moved;
use super::value::{Instant, int4, small_number, text, texts};

/// Series in which somebody may go out.
pub(super) type Marked = BTreeSet<(TypeName, SeriesName)>;

/// How many marks are worked off at a time.
const MARKS_AT_ONCE: u32 = 500;

impl Store {
    /// Notes in a transaction that somebody may go out once it is committed.
    pub(super) async fn mark_series(&self, tx: &Tx, series: &Marked) -> Step<()> {
        if series.is_empty() {
            return Ok(());
        }
        let (types, names) = columns(series);
        tx.ask(&self.sql.mark_series, &[texts(&types), texts(&names)]).await?;
        Ok(())
    }

    /// Lets out who comes next in these series, if the commit that marked them did not: somebody else was at it. If that fails,
    /// the marks stay, and a look or a sweep goes on with them: what was committed stands. Either way this process learns who
    /// went out, since it may lie before what claims have read; `is_news` says of one that is out already whether it is new here.
    pub(super) async fn go_on_with(&self, series: &Marked, is_news: impl Fn(JobId) -> bool + Send) {
        if series.is_empty() {
            return;
        }
        let (types, names) = columns(series);
        if let Err(fault) = self.advance(Some(types), Some(names), is_news).await {
            tracing::debug!(?fault, "series go on with the next look");
        }
    }

    /// Works off what others have marked and did not go on with: a process that died in between, or a transaction of the
    /// application, which knows nothing of it.
    pub(super) async fn work_off_marks(&self) -> Step<()> {
        self.advance(None, None, |_| false).await
    }

    async fn advance(
        &self,
        types: Option<Vec<&str>>,
        names: Option<Vec<&str>>,
        is_news: impl Fn(JobId) -> bool + Send,
    ) -> Step<()> {
        let at_most = int4(MARKS_AT_ONCE);
        // Core's word on where one goes on that ever crashed.
        let after_a_crash = gate_by_history(&Counters { crashes: 1, ..Counters::default() });
        let after_a_crash = after_a_crash.as_ref().map(Gate::as_str);
        let params = [texts(&types), texts(&names), small_number(&at_most), text(&after_a_crash)];
        let rows = self.work.get().await?.write(&self.sql.advance_series, &params).await?;
        let mut moved = Moved::default();
        for row in &rows {
            if !row.try_get::<_, bool>(4)? && !is_news(JobId(row.try_get(3)?)) {
                continue;
            }
            let priority = Priority::new(row.try_get::<_, i16>(1)?.into());
            if let (Ok(queue), Ok(priority)) = (QueueName::parse(row.try_get(0)?), priority) {
                moved.put_back.push((queue.clone(), priority, row.try_get::<_, Instant>(2)?.0));
                moved.queues.insert(queue);
            }
        }
        self.tell_put_back(&moved);
        Ok(())
    }

    /// The job of a series that is out.
    pub(super) async fn head_of(&self, job_type: TypeName, series: SeriesName) -> Step<Option<JobId>> {
        let (job_type, series) = (job_type.as_str(), series.as_str());
        let ids = self.ids(&self.sql.series_out, &[text(&job_type), text(&series)]).await?;
        Ok(ids.first().copied().map(JobId))
    }
}

fn columns(series: &Marked) -> (Vec<&str>, Vec<&str>) {
    series.iter().map(|(job_type, series)| (job_type.as_str(), series.as_str())).unzip()
}
