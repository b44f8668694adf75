//! Which store this is. It may come back empty, or another one may take its place. What this process knows of a store, its
//! incarnation and its queues and types, is swapped as one: whoever calls meanwhile asks for the old store, is told that it
//! is gone, and waits until the new one knows what this process has declared.

use std::sync::{Arc, PoisonError};

use windlass_core::engine::Hint;

use super::Store;
use super::call::{Args, Said};
use super::catalogue::Catalogue;
use super::fault::{Fault, Step};
use super::script::Script;

/// A store as this process knows it.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// A random mark that a store gets when it is made.
    pub(super) incarnation: Arc<str>,
    pub(super) catalogue: Arc<Catalogue>,
}

impl Store {
    pub(super) fn opened(&self) -> Arc<Opened> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn catalogue(&self) -> Arc<Catalogue> {
        self.opened().catalogue.clone()
    }

    /// The catalogue with a type that was met in a job: another process may just have registered it.
    pub(super) async fn catalogue_with(&self, kind: u32) -> Step<Arc<Catalogue>> {
        if self.catalogue().type_numbered(kind).is_none() {
            self.reload().await?;
        }
        Ok(self.catalogue())
    }

    /// Makes the namespace if it is not there, and reads what it knows.
    pub(super) async fn open_first(&self) -> Step<()> {
        let incarnation = self.read_incarnation().await?;
        let catalogue = self.read_catalogue(&incarnation).await?;
        self.swap(incarnation, catalogue);
        Ok(())
    }

    /// Reads queues and types again.
    pub(super) async fn reload(&self) -> Step<()> {
        let opened = self.opened();
        match self.say(&self.scripts().catalogue, &Args::new(), &opened.incarnation).await? {
            Said::Answer(reply) => self.learn(&opened, Catalogue::read(reply.value)?),
            Said::Stale | Said::Lost => self.open_again(&opened).await?,
        }
        Ok(())
    }

    /// The store is not the one that somebody asked for: it came back empty, or another one took its place. What this process
    /// has declared is declared again; its workers find that they are unknown and start over by themselves. One caller does
    /// it, the others wait.
    pub(super) async fn open_again(&self, asked: &Opened) -> Step<()> {
        let _one_at_a_time = self.opening.lock().await;
        if self.opened().incarnation != asked.incarnation {
            return Ok(());
        }
        let incarnation = self.read_incarnation().await?;
        if *incarnation == *asked.incarnation {
            // It is the old one again.
            return Ok(());
        }
        tracing::error!(
            namespace = self.keys.all,
            before = &*asked.incarnation,
            now = incarnation,
            "the store is another one than was opened: what it held is lost or elsewhere; queues and types are declared again"
        );
        if let Some(args) = self.declared_args() {
            self.said_by(&self.scripts().declare, &args, &incarnation).await?;
        }
        let catalogue = self.read_catalogue(&incarnation).await?;
        self.swap(incarnation, catalogue);
        self.listeners.tell(&Hint::Any);
        Ok(())
    }

    async fn read_catalogue(&self, incarnation: &str) -> Step<Catalogue> {
        Catalogue::read(self.said_by(&self.scripts().catalogue, &Args::new(), incarnation).await?)
    }

    /// The answer of the store of this incarnation.
    async fn said_by(&self, script: &Script, args: &Args, incarnation: &str) -> Step<redis::Value> {
        match self.say(script, args, incarnation).await? {
            Said::Answer(reply) => Ok(reply.value),
            Said::Stale => Err(Fault::Stale),
            Said::Lost => Err(self.another_store()),
        }
    }

    async fn say(&self, script: &Script, args: &Args, incarnation: &str) -> Step<Said> {
        self.send(&self.work, script, args, incarnation, "").await
    }

    fn swap(&self, incarnation: String, catalogue: Catalogue) {
        let opened = Opened { incarnation: incarnation.into(), catalogue: Arc::new(catalogue) };
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(opened);
    }

    /// Queues and types of a store as they were just read; unless another store has been opened meanwhile.
    fn learn(&self, asked: &Opened, catalogue: Catalogue) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if opened.incarnation == asked.incarnation {
            let incarnation = asked.incarnation.clone();
            *opened = Arc::new(Opened { incarnation, catalogue: Arc::new(catalogue) });
        }
    }
}
