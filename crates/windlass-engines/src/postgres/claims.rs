//! The record of what each claim holds.
//!
//! The row of a job says which worker runs it. To find the jobs of one worker takes an index, and an index
//! into which a claim has to write for each job costs more than the claim itself. So each claim records its
//! jobs in one row of its own. Every statement that ends jobs records how many have left which claim.
//! Maintenance subtracts these records.

use std::sync::atomic::Ordering;

use super::Store;
use super::conn::Tx;
use super::store_error::StoreResult;
use super::value::{number, text};

/// How many jobs one prune scans for some that belong to no claim. A row of ours always belongs to one, so
/// this may go in steps. Where an old transaction keeps vacuum away, and the scan over dead rows is long,
/// it is left for a later prune.
const REPAIR_STRETCH: i64 = 10_000;
const REPAIR_WITHIN: &str = "1s";

impl Store {
    /// Subtracts the jobs that have left their claims.
    pub(super) async fn fold_claims(&self) -> StoreResult<()> {
        self.fold(&self.sql.fold_claims).await
    }

    /// Does the same before a query for the jobs of one worker, which would otherwise walk over all that
    /// have left lately. If it fails, the query takes longer, and finds the same.
    pub(super) async fn fold_claims_if_possible(&self) {
        if let Err(fault) = self.fold_claims().await {
            tracing::warn!(?fault, "subtracting ended jobs from their claims failed; the next sweep does it");
        }
    }

    /// Scans the next stretch of jobs for running ones that belong to no claim: rows that a person wrote
    /// with SQL, or restored from a backup of this table alone.
    pub(super) async fn repair_claims(&self) -> StoreResult<()> {
        let tx = self.work.begin().await?;
        let repaired = self.repair_claims_in(&tx).await;
        match tx.end(repaired).await {
            Err(fault) if fault.is_timed_out() => {
                tracing::debug!("the scan for orphaned claims reached its limit");
                Ok(())
            }
            ended => ended,
        }
    }

    async fn repair_claims_in(&self, tx: &Tx) -> StoreResult<()> {
        let after = self.repaired_up_to.load(Ordering::Relaxed);
        tx.query(&self.sql.set_statement_timeout, &[text(&REPAIR_WITHIN)]).await?;
        let rows = tx.query(&self.sql.repair_claims, &[number(&after), number(&REPAIR_STRETCH)]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (up_to, found): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?);
        self.repaired_up_to.store(up_to.unwrap_or_default(), Ordering::Relaxed);
        if found > 0 {
            tracing::warn!(
                found,
                "running jobs belonged to no claim; they are rescued if no live worker runs them"
            );
        }
        Ok(())
    }
}
