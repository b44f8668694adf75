//! The plain drain: jobs that were put in before, one worker, a handler that does nothing.

use super::super::drain::drain;
use super::super::env::Env;
use super::super::figures::Figures;
use super::super::{load, memory};
use crate::exit::Failure;

pub(super) async fn run(env: &Env<'_>) -> Result<Figures, Failure> {
    let jobs = env.args.jobs;
    forget_peak();
    let client = env.client().await?;
    let empty = memory::used(env).await?;
    load::fill(&client, jobs, |_| load::draft(), env.progress).await?;
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

/// The most memory this process had since the peak was forgotten, where the system tells.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// From now on the peak is counted anew, so that an earlier scenario is not taken for this one. Where the system does not
/// allow it, the figure is that of the whole process so far.
fn forget_peak() {
    const PEAK_RSS: &str = "5";
    let _ = std::fs::write("/proc/self/clear_refs", PEAK_RSS);
}
