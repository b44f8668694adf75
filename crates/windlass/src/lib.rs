//! Windlass runs durable background jobs. You enqueue a job. It is run, retried after failures, moved to
//! the dead-letter queue when retries are used up, and pruned. At every moment you can see its state, and
//! why.
//!
//! Jobs are kept by an *engine*: in memory, in an SQLite file that several processes may share, or in
//! PostgreSQL or Redis. The rules are the same on each.
//!
//! # A handler may run twice
//!
//! This comes first, since it shapes every handler that you write. A worker can die, or be cut off, after
//! it did the work and before the store learned of it. Then the job is run again. No queue can prevent
//! that; this one makes it rare, reports it when it happens, and refuses every late write: **each job gets
//! at most one accepted end**, and a worker that lost its claim can neither finish the job nor report
//! progress on it.
//!
//! Make handlers harmless when repeated: write with a key of your own, or pass the claim's
//! [fence](Context::fence) on to every system that you write to, or write your rows and the end of the job
//! in one transaction (`complete_in` in the modules `sqlite` and `postgres`). What else is promised and
//! what is not is [below](#promises).
//!
//! # A job, a handler, a worker
//!
//! A job is a plain struct with a name. The name is what the store keeps, so renaming the struct orphans
//! nothing. A handler is an async function whose first argument is the job. A worker runs handlers.
//!
//! ```
//! use std::sync::Arc;
//! use serde::{Deserialize, Serialize};
//! use windlass::{Handlers, JobType, MemoryEngine, Worker, WorkerOptions};
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendMail { to: String }
//!
//! impl JobType for SendMail {
//!     const NAME: &'static str = "mail.send";
//! }
//!
//! async fn send_mail(job: SendMail) -> Result<(), std::io::Error> {
//!     println!("dear {}", job.to);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Arc::new(MemoryEngine::new());
//! let handlers = Handlers::new(()).handle(send_mail);
//! let mut worker = Worker::start(engine, handlers, WorkerOptions::default()).await?;
//!
//! worker.client().enqueue(SendMail { to: "Ada".into() }).await?;
//! worker.drain().await; // finish what is due, then end
//! # Ok(()) }
//! ```
//!
//! To keep jobs in a file, enable the feature `sqlite` and pass `SqliteEngine::open("jobs.db",
//! SqliteOptions::default())?` instead of the memory engine. To keep them in PostgreSQL, enable the feature
//! `postgres` and pass `PostgresEngine::connect(url, PostgresOptions::default()).await?`. Nothing else
//! changes.
//!
//! A process that only enqueues jobs needs no worker, just a [`Client`]. The store refuses jobs of a type
//! that is not registered. Workers register their types when they start; [`Client::register`] registers a
//! type without a worker.
//!
//! # Delays, priorities, keys, retries
//!
//! Say what you need when you enqueue a job. The job is sent when the builder is awaited.
//!
//! ```
//! use std::time::Duration;
//! use windlass::{Client, EnqueueError, EnqueueOutcome, RetryPolicy};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)] struct SendMail { to: String }
//! # impl windlass::JobType for SendMail { const NAME: &'static str = "mail.send"; }
//!
//! async fn remind(client: &Client, user: u64) -> Result<(), EnqueueError> {
//!     let enqueued = client
//!         .enqueue(SendMail { to: format!("user {user}") })
//!         .delay(Duration::from_secs(3600)) // due in an hour, by the store's clock
//!         .label("high") // or .priority(0); ten is least urgent
//!         .key(&format!("remind:{user}")) // while one is live, a second changes nothing
//!         .retry(RetryPolicy::fibonacci()) // else the policy of its type
//!         .timeout(Duration::from_secs(30))
//!         .correlation("sign-up 12") // goes along into logs and follow-up jobs
//!         .await?;
//!     if enqueued.outcome == EnqueueOutcome::Duplicate {
//!         println!("job {} will do it already", enqueued.id);
//!     }
//!     Ok(())
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let client = Client::new(std::sync::Arc::new(windlass::MemoryEngine::new()));
//! # client.register::<SendMail>().await.unwrap();
//! # remind(&client, 7).await.unwrap();
//! # remind(&client, 7).await.unwrap();
//! # assert_eq!(client.queues().await.unwrap()[0].counts.scheduled, 1);
//! # }
//! ```
//!
//! A handler that returns an error is retried: after about 30 s, 1 min, 2 min, 4 min, and then the job is
//! dead and in the dead-letter queue. The defaults of a type are set where it is
//! [defined](JobType::defaults). A handler can also decide itself how its job ends, see [`Outcome`].
//!
//! # State, context, hooks
//!
//! The other arguments of a handler are found by type: [`State`] for the application's state or a part of
//! it, [`Context`] for progress, log lines, follow-up jobs and requests to stop, [`Attempt`], [`JobId`]. A
//! missing state is a compile error. [`Hook`]s run around every job.
//!
//! ```
//! use windlass::{Attempt, Context, Handlers, JobType, State};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)] struct Import { file: String }
//! # impl JobType for Import { const NAME: &'static str = "import"; }
//!
//! #[derive(Clone)]
//! struct Database;
//!
//! async fn import(
//!     job: Import,
//!     ctx: Context,
//!     Attempt(attempt): Attempt,
//!     State(_database): State<Database>,
//! ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     ctx.log(format!("{}, attempt {attempt}", job.file));
//!     for part in 0..100 {
//!         if ctx.is_cancelled() {
//!             return Ok(()); // ends as cancelled, whatever is returned
//!         }
//!         ctx.progress(part, None).await?;
//!     }
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let handlers = Handlers::new(Database).handle(import);
//! # let mut worker = windlass::testing::TestWorker::new(handlers);
//! # worker.client().enqueue(Import { file: "a".into() }).await.unwrap();
//! # assert_eq!(worker.run().await[0].output(), "a, attempt 1\n");
//! # }
//! ```
//!
//! To pull jobs instead of registering functions, see [`dequeue`].
//!
//! # Stopping
//!
//! [`Worker::stop`] claims no more jobs, gives running handlers a grace, and releases unfinished jobs at no
//! cost. [`Worker::drain`] accepts no new jobs and works until nothing is due. A process that is killed
//! instead loses no jobs either: its jobs are rescued when its heartbeats have stopped for a lease, which
//! is 30 s by default. If the process was on the same host and the engine is SQLite, they are rescued at
//! the next sweep, every 5 s.
//!
//! # Testing
//!
//! [`testing`] runs a handler on a made-up job, or a whole queue in the calling task on a clock that you
//! control:
//!
//! ```
//! use std::time::Duration;
//! use windlass::testing::TestWorker;
//! # use windlass::{Handlers, JobType};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)] struct SendMail { to: String }
//! # impl JobType for SendMail { const NAME: &'static str = "mail.send"; }
//! # async fn send_mail(_job: SendMail) -> Result<(), std::io::Error> { Ok(()) }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mut worker = TestWorker::new(Handlers::new(()).handle(send_mail));
//! let later = Duration::from_secs(3600);
//! worker.client().enqueue(SendMail { to: "Ada".into() }).delay(later).await.unwrap();
//! worker.assert_enqueued::<SendMail>(|mail| mail.to == "Ada");
//! worker.advance(later);
//! assert_eq!(worker.run().await.len(), 1);
//! # }
//! ```
//!
//! # Promises
//!
//! What is promised, within what the [engine](#engines) survives:
//!
//! - A job that was acknowledged is never dropped in silence. It is run until it has an accepted end, is
//!   cancelled, or is dead with a reason that you can read.
//! - At most one accepted end for each job. Writes of a worker about a job that it no longer owns are
//!   refused.
//! - Never before it is due, by the store's clock.
//! - If it is not known whether a job was stored, the error says so, and repeating the request under its
//!   [request id](Enqueue::request_id) creates no second job.
//! - At most one live job for each key.
//! - A worker that dies uses up no attempt of its jobs. A job whose workers keep dying is dead after three
//!   deaths, and is run apart from other jobs meanwhile.
//! - A waiting job that was cancelled never starts; a running one is asked to stop and ends as cancelled.
//!
//! What is not promised, here or elsewhere:
//!
//! - That a handler runs exactly once, or that no two processes run the same job at the same moment: a
//!   process that was presumed dead may still run it. Its end will be refused; its writes elsewhere stay
//!   done.
//! - A strict order between jobs that several workers run, or across retries. One claim takes jobs by
//!   priority, due time and number.
//! - A start at an exact instant. A due job starts when a slot is free.
//! - The survival of data that the store itself loses.
//!
//! # Engines
//!
//! | engine | feature | an acknowledged job survives | processes |
//! |---|---|---|---|
//! | memory: [`MemoryEngine`] | always available | nothing: it is gone with the process | one |
//! | SQLite: `sqlite::SqliteEngine` | `sqlite` | a power cut (1) | many, on one host |
//! | PostgreSQL: `postgres::PostgresEngine` | `postgres` | a power cut (2) | many |
//! | Redis: `redis::RedisEngine` | `redis` | what the server's persistence says (3) | many |
//!
//! 1. With `Synchronous::Normal` it survives the death of the process instead.
//! 2. Unless the server runs with `fsync` or `synchronous_commit` off.
//! 3. With `appendfsync always` a power cut.
//!
//! # Modules
//!
//! | module | what it contains |
//! |---|---|
//! | [`prelude`] | the names that most programs need |
//! | [`client`], [`enqueue`] | enqueuing jobs |
//! | [`handler`] | functions, their arguments and return values |
//! | [`worker`] | pools of slots that claim, run and settle |
//! | [`limits`] | circuit breakers and rate limits |
//! | [`dequeue`] | pulling jobs without handlers |
//! | [`duties`] | what one process does for all: the application's own, and maintenance |
//! | [`maintenance`] | rescue of the jobs of dead workers, expiry, retention |
//! | [`schedules`] | jobs that are enqueued at times given by a text |
//! | [`triggers`] | jobs that are enqueued when a group of jobs has finished |
//! | [`testing`] | helpers for the tests of your application |
//! | [`engines`] | the stores of jobs |
//! | [`types`] | what a job is, and every rule about it |

pub mod prelude;
mod job_type;
pub mod client;
pub mod snapshot;
pub mod select;
pub mod enqueue;
pub mod handler;
pub mod worker;
pub mod limits;
pub mod dequeue;
pub mod duties;
pub mod maintenance;
pub mod schedules;
pub mod triggers;
pub mod rollups;
pub mod alerts;
pub mod testing;
mod reconcile;
#[cfg(test)]
mod log_capture;
mod store;
mod random;
#[cfg(doctest)]
mod guides;

pub use client::{Client, ClientOptions, EnqueueHook, RegisterError};
pub use enqueue::{Enqueue, EnqueueError, EnqueueOutcome, Enqueued, Handle};
pub use handler::{Attempt, Context, FromRef, Handlers, HandlersError, Hook, Json, Outcome, State};
pub use job_type::{JobType, spec_of};
pub use limits::{BreakerSpec, LimitOptions, RateLimitSpec, RateLimited};
pub use rollups::Rollups;
pub use schedules::Schedules;
pub use snapshot::Snapshot;
pub use triggers::CompletionTriggers;
pub use windlass_core as types;
pub use windlass_core::job::JobId;
pub use windlass_core::job_type::TypeSpec;
pub use windlass_core::key::{KeyScope, OnConflict};
pub use windlass_core::queue::QueueSpec;
pub use windlass_core::retry::RetryPolicy;
pub use windlass_core::schedules::{JobTemplate, Overlap, ScheduleSpec};
pub use windlass_core::triggers::{CompletionTrigger, Watched};
pub use windlass_engines as engines;
#[cfg(feature = "fallback")]
pub use windlass_engines::fallback;
pub use windlass_engines::memory::MemoryEngine;
#[cfg(feature = "postgres")]
pub use windlass_engines::postgres;
#[cfg(feature = "redis")]
pub use windlass_engines::redis;
#[cfg(feature = "sqlite")]
pub use windlass_engines::sqlite;
pub use worker::{StartError, Stopped, Stopper, Worker, WorkerOptions};
