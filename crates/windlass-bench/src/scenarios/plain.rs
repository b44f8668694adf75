//! The rate of a drain: jobs that were enqueued before, one worker, a handler that does no work. Also the
//! memory of this process, and on Redis that of the server for each job.

use anyhow::Result;

use crate::drain::drain;
use crate::env::Env;
use crate::figures::Figures;
use crate::{memory, workload};

pub(crate) async fn run(env: &Env<'_>) -> Result<Figures> {
    let jobs = env.options.jobs;
    reset_peak_rss();
    let client = env.client().await?;
    let empty = memory::used(env).await?;
    workload::enqueue_bulk(&client, jobs, |_| workload::new_job()).await?;
    let full = memory::used(env).await?;
    let figures = drain(env, jobs, &[])
        .await?
        .figures()
        .and(memory::per_job("bytes_per_waiting_job", empty, full, jobs))
        .and(memory::per_job("bytes_per_done_job", empty, memory::used(env).await?, jobs));
    Ok(match peak_rss_mb() {
        Some(megabytes) => figures.with("peak_rss_mb", megabytes),
        None => figures,
    })
}

/// The most memory that this process had since the peak was reset, on Linux.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// Leaves earlier scenarios out of the peak. Where the system refuses, the peak is that of the whole process.
fn reset_peak_rss() {
    const PEAK_RSS: &str = "5";
    let _ = std::fs::write("/proc/self/clear_refs", PEAK_RSS);
}
