//! What claims hold. Who runs a job is told by its row, but to find the jobs of one worker takes an index; and one that a
//! claim has to write into for each job costs more than the claim itself. So each claim notes its jobs in one row of its
//! own, every statement that ends jobs notes how many have left which claim, and maintenance folds these notes.

use std::sync::atomic::Ordering;

use super::Store;
use super::conn::Tx;
use super::store_error::StoreResult;
use super::value::{number, text};

/// How many jobs one prune looks through for some that no claim knows of. A row of ours always has one, so this may take
/// its turns; and where an old transaction keeps vacuum away, and the way over what is dead is long, it waits for better
/// days.
const MEND_STRETCH: i64 = 10_000;
const MEND_WITHIN: &str = "1s";

impl Store {
    /// Takes off what claims hold what has left them.
    pub(super) async fn fold_claims(&self) -> StoreResult<()> {
        self.fold(&self.sql.fold_claims).await
    }

    /// The same before a look at what somebody holds, which would walk over all that has left lately. If it fails, the look
    /// takes longer, and finds the same.
    pub(super) async fn fold_claims_if_possible(&self) {
        if let Err(fault) = self.fold_claims().await {
            tracing::warn!(?fault, "what has left claims was not taken off them; a sweep will");
        }
    }

    /// Looks through the next stretch of jobs for running ones that no claim knows of: rows that somebody wrote by hand,
    /// or brought back from a backup of this table alone.
    pub(super) async fn repair_claims(&self) -> StoreResult<()> {
        let tx = self.work.begin().await?;
        let mended = self.mend_claims_in(&tx).await;
        match tx.end(mended).await {
            Err(fault) if fault.is_timed_out() => {
                tracing::debug!("the way to running jobs that no claim knows of is too long");
                Ok(())
            }
            ended => ended,
        }
    }

    async fn mend_claims_in(&self, tx: &Tx) -> StoreResult<()> {
        let after = self.mended_up_to.load(Ordering::Relaxed);
        tx.query(&self.sql.set_statement_timeout, &[text(&MEND_WITHIN)]).await?;
        let rows = tx.query(&self.sql.repair_claims, &[number(&after), number(&MEND_STRETCH)]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (up_to, found): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?);
        self.mended_up_to.store(up_to.unwrap_or_default(), Ordering::Relaxed);
        if found > 0 {
            tracing::warn!(
                found,
                "running jobs belonged to no claim; they are taken back if nobody runs them"
            );
        }
        Ok(())
    }
}
