//! What a command works with: the store, the configuration, and where to print.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::Arc;

use windlass_core::admin::{JobRecord, QueueStatus, TypeStatus};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::job::JobId;
use windlass_core::names::{PriorityLabel, QueueName, TypeName};
use windlass_core::priority::Priority;

use crate::config::{Config, suggest};
use crate::exit::{Code, Failure};
use crate::output::Output;

/// What a command works with.
pub(crate) struct Context {
    /// Where jobs are kept.
    pub(crate) engine: Arc<dyn Engine>,
    /// What was configured.
    pub(crate) config: Config,
    /// Where to print.
    pub(crate) output: Output,
    /// Standard input.
    pub(crate) input: Box<dyn Read + Send>,
    /// Asks a person and gives the answer; nothing if no person is there.
    pub(crate) ask: fn(&str) -> Option<String>,
}

impl Context {
    /// Tells the store of queues and types that configuration names and the store does not know yet. What it
    /// knows stays as it is: a look at a store must not change it to the defaults of another directory.
    pub(crate) async fn declare_missing(&self) -> Result<(), Failure> {
        let (queues, types) = (self.engine.queues().await?, self.engine.types().await?);
        let wanted = self.config.declaration();
        let knows_queue = |name: &QueueName| queues.iter().any(|known| known.spec.name == *name);
        let knows_type = |name: &TypeName| types.iter().any(|known| known.spec.name == *name);
        let missing = Declaration {
            queues: wanted.queues.into_iter().filter(|queue| !knows_queue(&queue.name)).collect(),
            types: wanted.types.into_iter().filter(|spec| !knows_type(&spec.name)).collect(),
        };
        if missing != Declaration::default() {
            self.engine.declare(missing).await?;
        }
        Ok(())
    }

    /// One job, or the failure that there is none.
    pub(crate) async fn job(&self, id: JobId) -> Result<JobRecord, Failure> {
        let missing = || {
            Failure::not_found(format_args!("job {id}"))
                .hint("it was never put in, or its time of retention is over")
        };
        self.engine.job(id).await?.ok_or_else(missing)
    }

    /// One queue, or the failure that there is none.
    pub(crate) async fn queue(&self, name: &QueueName) -> Result<QueueStatus, Failure> {
        let queues = self.engine.queues().await?;
        let known: Vec<_> = queues.iter().map(|queue| queue.spec.name.as_str()).collect();
        let missing = Failure::not_found(format_args!("queue {name}")).hint(suggest(name.as_str(), known));
        queues.into_iter().find(|queue| queue.spec.name == *name).ok_or(missing)
    }

    /// One job type, or the failure that there is none.
    pub(crate) async fn job_type(&self, name: &TypeName) -> Result<TypeStatus, Failure> {
        let types = self.engine.types().await?;
        let known: Vec<_> = types.iter().map(|status| status.spec.name.as_str()).collect();
        let missing = Failure::not_found(format_args!("job type {name}"));
        let missing = match known.as_slice() {
            [] => missing.hint("none is registered yet; see `windlass type register --help`"),
            _ => missing.hint(suggest(name.as_str(), known.iter().copied())),
        };
        types.into_iter().find(|status| status.spec.name == *name).ok_or(missing)
    }

    /// A priority as people write it: a number from 0 to 10, or a configured label.
    pub(crate) fn priority(&self, written: &str) -> Result<(Priority, Option<PriorityLabel>), Failure> {
        if let Ok(number) = written.parse() {
            return Ok((Priority::new(number).map_err(|why| Failure::usage(why.to_string()))?, None));
        }
        let labels = &self.config.priorities;
        let (label, priority) = labels.resolve(written).map_err(|why| Failure::usage(why.to_string()))?;
        Ok((priority, Some(label)))
    }

    /// Goes on only if somebody said so: with `--yes`, or by typing `word` on a terminal.
    pub(crate) fn confirm(&mut self, yes: bool, impact: &str, word: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        let refused = |why: &str| Failure::new(Code::Refused, format!("{impact}; {why}"));
        match (self.ask)(&format!("{impact}.\nType {word} to go on: ")) {
            Some(answer) if answer.trim() == word => Ok(()),
            Some(_) => Err(refused("nothing was done, since the answer was another one")),
            None => Err(refused("nothing was done").hint("confirm it with --yes")),
        }
    }
}

/// Asks on the terminal, if there is one on both ends.
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

/// Reads the number of a job.
pub(crate) fn parse_id(written: &str) -> Result<JobId, String> {
    match written.parse() {
        Ok(number) if number > 0 => Ok(JobId(number)),
        _ => Err(format!("expected the number of a job, such as 42, got {written:?}")),
    }
}
