//! What users have besides a worker: helpers for their tests, and consumers that pull jobs.

mod jobs;
mod limits;
mod fake_jobs;
mod test_worker;
mod dequeue;
mod readme;
mod examples;
