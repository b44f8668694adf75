//! The context of a command: the store, the configuration, and the output.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::Arc;

use windlass_core::admin::{QueueStatus, StoredJob, TypeStatus};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{PriorityLabel, QueueName, TypeName};
use windlass_core::priority::Priority;
use windlass_core::queue::QueueSpec;

use crate::config::{Config, suggest};
use crate::exit::{Code, Failure};
use crate::output::Output;

/// The context of a command.
pub(crate) struct Context {
    /// The store.
    pub(crate) engine: Arc<dyn Engine>,
    /// The configuration.
    pub(crate) config: Config,
    /// The output of the command.
    pub(crate) output: Output,
    /// Standard input.
    pub(crate) input: Box<dyn Read + Send>,
    /// Asks a person a question and returns the answer, or `None` without a terminal.
    pub(crate) ask: fn(&str) -> Option<String>,
}

impl Context {
    /// Declares the queues and types that the store does not have yet; existing ones stay as they are.
    ///
    /// A command that only reads must not change a store to the defaults of another directory, so that a
    /// removed queue would come back. So all queues are declared in a fresh store only. Otherwise only a
    /// command that adds something declares what the configuration names beyond the built-in queues.
    pub(crate) async fn declare_missing(&self, adds_to_store: bool) -> Result<(), Failure> {
        let known = self.engine.queues().await?;
        let fresh = known.is_empty();
        if !fresh && !adds_to_store {
            return Ok(());
        }
        let types = self.missing_types().await?;
        let built_in = QueueSpec::built_in();
        let wanted = |queue: &QueueSpec| {
            fresh || !built_in.contains(queue) || types.iter().any(|spec| spec.queue == queue.name)
        };
        let is_known = |queue: &QueueSpec| known.iter().any(|status| status.spec.name == queue.name);
        let queues =
            self.config.queues.iter().filter(|queue| !is_known(queue) && wanted(queue)).cloned().collect();
        let missing = Declaration { queues, types };
        if missing != Declaration::default() {
            self.engine.declare(missing).await?;
        }
        Ok(())
    }

    async fn missing_types(&self) -> Result<Vec<TypeSpec>, Failure> {
        let known = self.engine.types().await?;
        let is_known = |spec: &TypeSpec| known.iter().any(|status| status.spec.name == spec.name);
        Ok(self.config.types.iter().filter(|spec| !is_known(spec)).cloned().collect())
    }

    /// Returns a job, or the failure that there is none.
    pub(crate) async fn job(&self, id: JobId) -> Result<StoredJob, Failure> {
        let missing = || {
            Failure::not_found(format_args!("job {id}"))
                .hint("it was never enqueued, or its retention has ended")
        };
        self.engine.job(id).await?.ok_or_else(missing)
    }

    /// Returns a queue, or the failure that there is none.
    pub(crate) async fn queue(&self, name: &QueueName) -> Result<QueueStatus, Failure> {
        let queues = self.engine.queues().await?;
        let known: Vec<_> = queues.iter().map(|queue| queue.spec.name.as_str()).collect();
        let missing = Failure::not_found(format_args!("queue {name}")).hint(suggest(name.as_str(), known));
        queues.into_iter().find(|queue| queue.spec.name == *name).ok_or(missing)
    }

    /// Returns a job type, or the failure that there is none.
    pub(crate) async fn job_type(&self, name: &TypeName) -> Result<TypeStatus, Failure> {
        let types = self.engine.types().await?;
        let known: Vec<_> = types.iter().map(|status| status.spec.name.as_str()).collect();
        let missing = Failure::not_found(format_args!("job type {name}"));
        let missing = match known.as_slice() {
            [] => missing.hint("no job type is registered yet; see `windlass type register --help`"),
            _ => missing.hint(suggest(name.as_str(), known.iter().copied())),
        };
        types.into_iter().find(|status| status.spec.name == *name).ok_or(missing)
    }

    /// Parses a priority as people write it: a number from 0 to 10, or a configured label.
    pub(crate) fn priority(&self, written: &str) -> Result<(Priority, Option<PriorityLabel>), Failure> {
        if let Ok(number) = written.parse() {
            return Ok((Priority::new(number).map_err(|why| Failure::usage(why.to_string()))?, None));
        }
        let labels = &self.config.priorities;
        let (label, priority) = labels.resolve(written).map_err(|why| Failure::usage(why.to_string()))?;
        Ok((priority, Some(label)))
    }

    /// Fails unless the act is confirmed: with `--yes`, or by typing `word` on a terminal.
    pub(crate) fn confirm(&mut self, yes: bool, impact: &str, word: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        let refused = |why: &str| Failure::new(Code::Refused, format!("{impact}; {why}"));
        match (self.ask)(&format!("{impact}.\nType {word} to continue: ")) {
            Some(answer) if answer.trim() == word => Ok(()),
            Some(_) => Err(refused("nothing was done, since the answer did not match")),
            None => Err(refused("nothing was done").hint("confirm with --yes")),
        }
    }
}

/// Asks on the terminal, if both standard input and standard error are one.
pub(crate) fn ask_terminal(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let mut terminal = std::io::stderr();
    write!(terminal, "{question}").and_then(|()| terminal.flush()).ok()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    Some(answer)
}

/// Parses a job id.
pub(crate) fn parse_id(written: &str) -> Result<JobId, String> {
    match written.parse() {
        Ok(number) if number > 0 => Ok(JobId(number)),
        _ => Err(format!("expected a job id, such as 42, got {written:?}")),
    }
}
