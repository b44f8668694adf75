//! Calls: sends a script with its arguments, and parses its answer. Handles what the answer says of the store
//! itself: the server has lost the script, queues or types have changed, or it is not the store that this
//! engine opened.

use std::io::Write;
use std::sync::Arc;

use redis::{Cmd, Value};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::names::QueueName;

use super::Store;
use super::catalogue::Catalogue;
use super::conn::Link;
use super::reply::{Reply, ReplyReader};
use super::row::ID_DIGITS;
use super::script::Script;
use super::store_epoch::{Gone, Opened};
use super::store_error::{StoreError, StoreResult};

/// The name among the queues of an answer that says that the script has marked a completion trigger.
const MARKED: &str = "*";

/// How often a call is repeated because queues or types have changed meanwhile.
pub(super) const STALE_MAX: usize = 20;
/// How often a call is repeated because the store was replaced.
pub(super) const LOST_MAX: usize = 3;

/// The arguments of a script. One buffer contains all of them: a batch has thousands.
#[derive(Debug, Clone, Default)]
pub(super) struct Args {
    bytes: Vec<u8>,
    /// The end of each argument in the buffer.
    ends: Vec<usize>,
    /// Queues whose waiting workers were notified already.
    notified: Vec<QueueName>,
}

impl Args {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        self
    }

    pub(super) fn number(&mut self, number: i64) -> &mut Self {
        self.shown(format_args!("{number}"))
    }

    pub(super) fn count(&mut self, count: usize) -> &mut Self {
        self.shown(format_args!("{count}"))
    }

    /// Adds the number of a job, in the form that keys have.
    pub(super) fn job(&mut self, id: JobId) -> &mut Self {
        self.shown(format_args!("{:0ID_DIGITS$}", id.0))
    }

    /// Adds a formatted text.
    pub(super) fn shown(&mut self, text: std::fmt::Arguments<'_>) -> &mut Self {
        self.bytes.write_fmt(text).expect("a buffer takes everything");
        self.ends.push(self.bytes.len());
        self
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.text(if flag { "1" } else { "" })
    }

    /// Names the queues whose waiting workers were notified when the script was sent. They need not be
    /// notified by its answer.
    pub(super) fn notified(&mut self, queues: Vec<QueueName>) -> &mut Self {
        self.notified = queues;
        self
    }

    /// Removes the last argument; returns whether there was one.
    #[cfg(test)]
    pub(super) fn drop_last(&mut self) -> bool {
        let there_was = self.ends.pop().is_some();
        self.bytes.truncate(self.ends.last().copied().unwrap_or_default());
        there_was
    }
}

impl Store {
    /// Runs a script that does not depend on the catalogue.
    pub(super) async fn call(&self, script: &Script, args: Args) -> StoreResult<Reply> {
        self.call_on(&self.work, script, args).await
    }

    /// Runs such a script on the connection of heartbeats.
    pub(super) async fn call_for_heartbeat(&self, script: &Script, args: Args) -> StoreResult<Reply> {
        self.call_on(&self.heart, script, args).await
    }

    async fn call_on(&self, link: &Link, script: &Script, args: Args) -> StoreResult<Reply> {
        for _ in 0..LOST_MAX {
            let opened = self.opened();
            match self.send(link, script, &args, &opened, "").await? {
                CallResult::Answer(reply) => return Ok(reply),
                CallResult::Stale => return Err(StoreError::Stale),
                CallResult::Gone(why) => self.open_again(&opened, why).await?,
            }
        }
        Err(self.another_store())
    }

    /// Runs a script whose arguments depend on queues and types.
    pub(super) async fn call_with_catalogue<F>(&self, script: &Script, mut args: F) -> StoreResult<Reply>
    where
        F: FnMut(&Catalogue) -> StoreResult<Args> + Send,
    {
        let mut lost = 0;
        for _ in 0..STALE_MAX {
            let opened = self.opened();
            let args = args(&opened.catalogue)?;
            match self.send(&self.work, script, &args, &opened, &opened.catalogue.version).await? {
                CallResult::Answer(reply) => return Ok(reply),
                CallResult::Stale => self.reload().await?,
                CallResult::Gone(why) if lost < LOST_MAX => {
                    lost += 1;
                    self.open_again(&opened, why).await?;
                }
                CallResult::Gone(_) => return Err(self.another_store()),
            }
        }
        Err(StoreError::Stale)
    }

    pub(super) fn another_store(&self) -> StoreError {
        StoreError::Engine(EngineError::Unavailable {
            why: format!("the store of namespace {} was replaced repeatedly during this call", self.keys.all),
        })
    }

    /// Sends a script to a store, with the version of the catalogue if that matters.
    pub(super) async fn send(
        &self,
        link: &Link,
        script: &Script,
        args: &Args,
        to: &Arc<Opened>,
        version: &str,
    ) -> StoreResult<CallResult> {
        #[cfg(test)]
        let args = &self.damage.of(script, args);
        let mut notified: &[QueueName] = &args.notified;
        let answer = match link.query(&self.command("EVALSHA", &script.sha, args, to, version)).await {
            Err(fault) if fault.is_about_a_missing_script() => {
                // A worker that was notified early has claimed too early, and found nothing.
                notified = &[];
                link.query(&self.command("EVAL", &script.text, args, to, version)).await
            }
            answer => answer,
        };
        let answer = answer.map_err(|fault| if script.writes { fault.of_write() } else { fault.of_read() });
        // A heartbeat has no time for it.
        if std::ptr::eq(link, &self.work) {
            self.read_new_facts().await;
        }
        self.read_answer(answer?, to, notified)
    }

    /// Notifies the workers of this process that wait for jobs of these queues.
    pub(super) fn notify_waiting(&self, queues: &[QueueName]) {
        queues.iter().for_each(|queue| self.listeners.tell(&Hint::Queue(queue.clone())));
    }

    fn command(&self, name: &str, script: &str, args: &Args, to: &Opened, version: &str) -> Cmd {
        let bytes = args.bytes.len() + script.len() + 256;
        let mut command = Cmd::with_capacity(args.ends.len() + 12, bytes);
        command
            .arg(name)
            .arg(script)
            .arg(3)
            .arg(&self.keys.all)
            .arg(&self.keys.ready)
            .arg(&self.keys.scheduled);
        command.arg(&*to.store_epoch).arg(version).arg(self.now_arg());
        command.arg(if self.listens { self.engine.as_str() } else { "" });
        command.arg(to.seen.beats()).arg(to.seen.last_job());
        let mut start = 0;
        for end in &args.ends {
            command.arg(&args.bytes[start..*end]);
            start = *end;
        }
        command
    }

    /// The `now` argument of scripts: empty, unless a test moves the clock.
    fn now_arg(&self) -> String {
        self.clock.as_ref().map_or_else(String::new, |clock| clock.now().as_micros().to_string())
    }

    /// Parses an answer and notifies listeners of what has changed, except for queues that were notified
    /// already.
    fn read_answer(
        &self,
        answer: Value,
        from: &Arc<Opened>,
        notified: &[QueueName],
    ) -> StoreResult<CallResult> {
        let mut answer = ReplyReader::of(answer)?;
        match answer.text()?.as_str() {
            "lost" => return Ok(CallResult::Gone(Gone::Replaced)),
            "older" => return Ok(CallResult::Gone(Gone::Older)),
            "stale" => return Ok(CallResult::Stale),
            _ => {}
        }
        let now = Timestamp::from_micros(answer.number()?);
        self.learn_time(now);
        let mut queues = answer.list()?;
        while !queues.is_empty() {
            let name = queues.text()?;
            if name == MARKED {
                self.listeners.tell(&Hint::Trigger);
            } else if let Ok(queue) = QueueName::parse(&name)
                && !notified.contains(&queue)
            {
                self.listeners.tell(&Hint::Queue(queue));
            }
        }
        Ok(CallResult::Answer(Reply { from: from.clone(), now, value: answer.value() }))
    }
}

/// The result of a call.
pub(super) enum CallResult {
    /// The answer of the script.
    Answer(Reply),
    /// Queues or types have changed.
    Stale,
    /// The store that the script was sent to is gone.
    Gone(Gone),
}
