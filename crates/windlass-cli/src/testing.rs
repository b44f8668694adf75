//! A shell for tests of commands: the whole command line on an engine in memory, with a clock that tests
//! move.

use std::io::Write;
use std::sync::{Arc, Mutex};

use clap::Parser;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, Suspects};
use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_core::limits::WORKER_LEASE;
use windlass_core::outcome::{AttemptOutcome, ErrorKind, JobError};
use windlass_core::retry::RetryPolicy;
use windlass_core::settle::{AttemptReport, settle};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::memory::MemoryEngine;

use crate::cli::Cli;
use crate::config;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::Output;

/// A store and the means to run commands on it.
pub(crate) struct Shell {
    pub(crate) engine: Arc<MemoryEngine>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ask: fn(&str) -> Option<String>,
    /// The environment variables that configure the commands.
    pub(crate) variables: Vec<(String, String)>,
    tokens: u128,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Code,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

const WORKER: WorkerId = WorkerId::from_random(7 << 100);

impl Shell {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
        Self { engine, clock, ask: |_| None, variables: Vec::new(), tokens: 1 }
    }

    /// A shell with the job type `t` in the queue `high`.
    pub(crate) async fn with_type() -> Self {
        let shell = Self::new();
        shell.ok("type register t --queue high --timeout 1m").await;
        shell
    }

    pub(crate) async fn ok(&self, line: &str) -> Done {
        let done = self.run(line, "").await;
        assert_eq!(done.code, Code::Ok, "{line}: {done:?}");
        done
    }

    /// Runs a command line. Words are split at spaces, and `%` means a space inside a word.
    pub(crate) async fn run(&self, line: &str, input: &str) -> Done {
        let words = line.split(' ').map(|word| word.replace('%', " "));
        let cli = match Cli::try_parse_from(std::iter::once("windlass".to_owned()).chain(words)) {
            Ok(cli) => cli,
            Err(why) => return Done { code: Code::Usage, out: String::new(), err: why.to_string() },
        };
        let (out, err) = (Shared::default(), Shared::default());
        let output = || Output::into_writers(cli.global.json, out.clone(), err.clone());
        let code = self.execute(&cli, output(), input).await.unwrap_or_else(|failure: Failure| {
            output().failure(&failure);
            failure.code
        });
        Done { code, out: out.text(), err: err.text() }
    }

    async fn execute(&self, cli: &Cli, output: Output, input: &str) -> Result<Code, Failure> {
        let mut context = Context {
            engine: self.engine.clone(),
            config: config::load(None, &self.variables).map_err(Failure::configuration)?,
            output,
            input: Box::new(std::io::Cursor::new(input.to_owned())),
            ask: self.ask,
        };
        context.declare_missing(crate::adds_to_store(&cli.command)).await?;
        crate::dispatch(&cli.command, &mut context).await
    }

    /// Claims one job of `t` in the queue `high`, as a worker would.
    pub(crate) async fn claim(&mut self) -> Claimed {
        let (queues, types) = (vec!["high".parse().unwrap()], vec!["t".parse().unwrap()]);
        if self.tokens == 1 {
            let card = WorkerCard {
                id: WORKER,
                host: "here".into(),
                pid: 1,
                version: "0".into(),
                queues: queues.clone(),
                types: types.clone(),
                duties: Vec::new(),
                slots: 0,
                lease: WORKER_LEASE * 1_000_000,
            };
            self.engine.register(card).await.unwrap();
        }
        self.tokens += 1;
        let request = ClaimRequest {
            token: ClaimToken::from_random(self.tokens),
            repeat: false,
            worker: WORKER,
            queues,
            types,
            limit: 1,
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        };
        match self.engine.claim(request).await.unwrap() {
            ClaimAnswer::Claimed { mut jobs, .. } => jobs.pop().expect("a job is ready"),
            ClaimAnswer::WorkerDead => panic!("the worker was just registered"),
        }
    }

    /// Ends a claimed job.
    pub(crate) async fn end(&self, claimed: Claimed, outcome: AttemptOutcome, output: Option<&str>) {
        let transition = settle(&claimed.job, outcome, &RetryPolicy::default(), claimed.age);
        let report = AttemptReport { output: output.map(str::to_owned), ..AttemptReport::default() };
        self.engine.settle(vec![claimed.settled(transition, report)]).await.unwrap();
    }

    /// Enqueues a job, claims the next job and lets it die.
    pub(crate) async fn dead_letter(&mut self) -> i64 {
        self.ok("job enqueue t").await;
        let claimed = self.claim().await;
        let id = claimed.job.id.0;
        let error = JobError::new(ErrorKind::Failed, "out of paper\nline two");
        self.end(claimed, AttemptOutcome::Dead(error), Some("printing\n")).await;
        id
    }
}

/// A writer whose output can be read afterwards.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
