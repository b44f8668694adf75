//! The identity of the store. It may come back empty, or older than it was, or another store may take its
//! place. What this process knows of a store, its store epoch and its queues and types, is swapped as a
//! whole. A call that runs meanwhile addresses the old store, gets the answer that it is gone, and waits
//! until the new store has all declarations of this process.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use windlass_core::clock::Timestamp;
use windlass_core::engine::{Hint, Replaced};
use windlass_core::job::JobId;

use super::Store;
use super::apply::Order;
use super::call::{Args, CallResult};
use super::catalogue::{Catalogue, CatalogueRead};
use super::reply::ReplyReader;
use super::script::Script;
use super::store_error::{StoreError, StoreResult};

/// A store as this process knows it.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// The random id that a store gets when it is created.
    pub(super) store_epoch: Arc<str>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) seen: Arc<Seen>,
}

/// The highest counts that a store has reported. They never decrease, unless the store forgot something.
#[derive(Debug, Default)]
pub(super) struct Seen {
    beats: AtomicU64,
    last_job: AtomicI64,
}

/// How a store that was opened is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// It came back empty, or another store took its place.
    Replaced,
    /// It came back as it was some time ago.
    Older,
}

impl Opened {
    /// A store of which only the epoch is known.
    fn unread(store_epoch: &str) -> Arc<Self> {
        Arc::new(Self { store_epoch: store_epoch.into(), ..Self::default() })
    }
}

impl Seen {
    pub(super) fn beat(&self, beats: u64) {
        self.beats.fetch_max(beats, Ordering::SeqCst);
    }

    pub(super) fn jobs(&self, jobs: impl Iterator<Item = JobId>) {
        if let Some(last) = jobs.map(|job| job.0).max() {
            self.last_job.fetch_max(last, Ordering::SeqCst);
        }
    }

    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::SeqCst)
    }

    pub(super) fn last_job(&self) -> i64 {
        self.last_job.load(Ordering::SeqCst)
    }
}

impl Store {
    pub(super) fn opened(&self) -> Arc<Opened> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn catalogue(&self) -> Arc<Catalogue> {
        self.opened().catalogue.clone()
    }

    /// Returns the catalogue with the type of a job that was read: another process may just have registered
    /// it.
    pub(super) async fn catalogue_with(&self, kind: u32) -> StoreResult<Arc<Catalogue>> {
        if self.catalogue().type_numbered(kind).is_none() {
            self.reload().await?;
        }
        Ok(self.catalogue())
    }

    /// Creates the namespace if it does not exist, and reads its catalogue.
    pub(super) async fn open_first(&self) -> StoreResult<()> {
        let opened = Opened::unread(&self.read_store_epoch(&Opened::default()).await?);
        self.read_and_swap(&opened).await
    }

    /// Reads queues and types again.
    pub(super) async fn reload(&self) -> StoreResult<()> {
        let opened = self.opened();
        match self.read_catalogue(&opened).await? {
            CatalogueRead::Done(catalogue) => {
                self.learn(&opened, catalogue);
                Ok(())
            }
            CatalogueRead::Gone(why) => self.open_again(&opened, why).await,
        }
    }

    /// Opens the store that took the place of the one that a caller addressed. All declarations of this
    /// process are declared again; its workers find that they are unknown and start over by themselves. One
    /// caller does it, the others wait.
    pub(super) async fn open_again(&self, asked: &Opened, why: Gone) -> StoreResult<()> {
        let _one_at_a_time = self.opening.lock().await;
        if self.opened().store_epoch != asked.store_epoch {
            return Ok(());
        }
        if why == Gone::Older {
            self.renew(asked).await?;
        }
        let opened = Opened::unread(&self.read_store_epoch(asked).await?);
        if opened.store_epoch == asked.store_epoch {
            // The old store is back.
            return Ok(());
        }
        // The store knows that number now, but may fail again before the number is on its disk.
        opened.seen.jobs(std::iter::once(JobId(asked.seen.last_job())));
        self.log_replacement(asked, &opened, why);
        let there = match self.read_catalogue(&opened).await? {
            CatalogueRead::Done(catalogue) => catalogue,
            CatalogueRead::Gone(_) => return Err(self.another_store()),
        };
        for args in self.declared_args(&there)? {
            self.answer_of(&self.scripts().declare, &args, &opened).await?;
        }
        self.read_and_swap(&opened).await?;
        self.listeners.tell(&Hint::Any);
        Ok(())
    }

    /// Gives a new epoch to a store that came back older, so that every process notices. If another process
    /// was first, that is enough.
    pub(super) async fn renew(&self, asked: &Opened) -> StoreResult<()> {
        let known = Opened { store_epoch: asked.store_epoch.clone(), ..Opened::default() };
        known.seen.jobs(std::iter::once(JobId(asked.seen.last_job())));
        let (known, mark) = (Arc::new(known), fastrand::u128(..));
        let (mut began, mut cursor) = (0, "0".to_owned());
        loop {
            let mut args = Args::new();
            args.shown(format_args!("{mark:032x}")).text(&Order::release()).number(began).text(&cursor);
            let CallResult::Answer(reply) = self.send_to(&self.scripts().renew, &args, &known).await? else {
                return Ok(());
            };
            cursor = ReplyReader::of(reply.value)?.text()?;
            if cursor.is_empty() {
                return Ok(());
            }
            began = if began > 0 { began } else { reply.now.as_micros() };
        }
    }

    /// Reads how often this store was found to be replaced, and when last.
    pub(super) async fn read_replaced(&self) -> StoreResult<Option<Replaced>> {
        let layout = format!("{}layout", self.keys.all);
        let query = redis::cmd("HMGET").arg(layout).arg("replaced").arg("replaced_at").to_owned();
        let mut fields = ReplyReader::of(self.work.query(&query).await.map_err(StoreError::of_read)?)?;
        let (times, last) = (fields.number_or_none()?, fields.number_or_none()?);
        let replaced = |(times, last)| Replaced {
            times: u64::try_from(times).unwrap_or_default(),
            last: Timestamp::from_micros(last),
        };
        Ok(times.zip(last).map(replaced))
    }

    fn log_replacement(&self, asked: &Opened, opened: &Opened, why: Gone) {
        let lost = match why {
            Gone::Replaced => "the store was replaced: the data of the former store is lost or elsewhere",
            Gone::Older => "the store came back older than it was: all later changes are lost",
        };
        let (namespace, before, now) = (&self.keys.all, &asked.store_epoch, &opened.store_epoch);
        tracing::error!(
            namespace,
            %before,
            %now,
            "{lost}; queues and types are declared again, and workers start over"
        );
    }

    async fn read_and_swap(&self, opened: &Arc<Opened>) -> StoreResult<()> {
        let catalogue = match self.read_catalogue(opened).await? {
            CatalogueRead::Done(catalogue) => Arc::new(catalogue),
            CatalogueRead::Gone(_) => return Err(self.another_store()),
        };
        let (store_epoch, seen) = (opened.store_epoch.clone(), opened.seen.clone());
        let opened = Arc::new(Opened { store_epoch, catalogue, seen });
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok(())
    }

    /// Returns the answer of exactly this store.
    async fn answer_of(
        &self,
        script: &Script,
        args: &Args,
        opened: &Arc<Opened>,
    ) -> StoreResult<redis::Value> {
        match self.send_to(script, args, opened).await? {
            CallResult::Answer(reply) => Ok(reply.value),
            CallResult::Stale => Err(StoreError::Stale),
            CallResult::Gone(_) => Err(self.another_store()),
        }
    }

    async fn send_to(&self, script: &Script, args: &Args, to: &Arc<Opened>) -> StoreResult<CallResult> {
        self.send(&self.work, script, args, to, "").await
    }

    /// Stores a catalogue that was just read, unless another store has been opened meanwhile.
    fn learn(&self, from: &Opened, catalogue: Catalogue) {
        let (store_epoch, seen, catalogue) =
            (from.store_epoch.clone(), from.seen.clone(), Arc::new(catalogue));
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if opened.store_epoch == store_epoch {
            *opened = Arc::new(Opened { store_epoch, catalogue, seen });
        }
    }
}
