//! Helpers for the tests of your own application: no server, no waiting, no sleeping.
//!
//! - [`run_handler`] calls one handler on a made-up job and returns how it ended, what it wrote and which
//!   jobs it enqueued.
//! - [`TestWorker`] is a whole Windlass in one test: jobs in memory, a clock that you control, and handlers
//!   that run in the calling task, one after the other, in the order in which a worker with one slot would
//!   run them.
//!
//! Both take the same path as every job: the same claim, the same execution with time-outs and caught
//! panics, the same rule for the transition of the job.
//!
//! ```
//! use std::time::Duration;
//! use windlass::types::job::JobState;
//! use windlass::testing::TestWorker;
//! use windlass::{Context, Handlers, JobType};
//! # use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct SignUp { user: u64 }
//! impl JobType for SignUp { const NAME: &'static str = "user.sign-up"; }
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Remind { user: u64 }
//! impl JobType for Remind { const NAME: &'static str = "user.remind"; }
//!
//! async fn sign_up(job: SignUp, ctx: Context) -> Result<(), windlass::EnqueueError> {
//!     ctx.enqueue(Remind { user: job.user }).delay(Duration::from_secs(3600)).await?;
//!     Ok(())
//! }
//! async fn remind(job: Remind, ctx: Context) { ctx.log(format!("dear {}", job.user)) }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mut worker = TestWorker::new(Handlers::new(()).handle(sign_up).handle(remind));
//! worker.client().enqueue(SignUp { user: 7 }).await.unwrap();
//!
//! worker.run().await;
//! worker.assert_enqueued::<Remind>(|job| job.user == 7);
//!
//! worker.advance(Duration::from_secs(3600));
//! let ran = worker.run().await;
//! assert_eq!(ran[0].output(), "dear 7\n");
//! assert_eq!(worker.job(ran[0].job.id).job_state(), JobState::Succeeded);
//! # }
//! ```

mod fake;
mod worker;
mod ran;
mod stored;

pub use fake::{FakeJob, run_handler};
pub use ran::Ran;
pub use worker::TestWorker;
