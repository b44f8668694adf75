//! The memory that jobs take on a server that keeps them in memory.

use anyhow::Result;

use crate::env::Env;
use crate::figures::Figures;
use crate::quiesce;
use crate::store::Location;

/// Bytes of the server's data after its background work has ended; nothing if the server keeps jobs
/// elsewhere.
pub(crate) async fn used(env: &Env<'_>) -> Result<Option<f64>> {
    let Location::Namespace { url, .. } = &env.store.location else { return Ok(None) };
    env.quiesce().await?;
    let mut connection = quiesce::connect_redis(url).await?;
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut connection).await?;
    Ok(data_bytes(&info))
}

/// Leaves out the buffer of the append-only file. Buffers of connections are small, and the server reports
/// them late.
fn data_bytes(info: &str) -> Option<f64> {
    let number = |name: &str| -> Option<f64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    };
    Some(number("used_memory")? - number("mem_aof_buffer").unwrap_or_default())
}

/// What each job took, if it was measured before and after they were enqueued.
pub(crate) fn per_job(name: &'static str, before: Option<f64>, after: Option<f64>, jobs: u64) -> Figures {
    match (before, after) {
        (Some(before), Some(after)) => Figures::default().with(name, (after - before) / jobs as f64),
        _ => Figures::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_the_append_only_file_is_no_data() {
        let info = "used_memory:1000\r\nused_memory_rss:5000\r\nmem_aof_buffer:50\r\n";
        assert_eq!(data_bytes(info), Some(950.0));
        assert_eq!(data_bytes("used_memory:1000\r\n"), Some(1000.0), "old servers report less");
        assert_eq!(data_bytes(""), None);
    }

    #[test]
    fn what_was_not_measured_is_missing() {
        assert_eq!(per_job("bytes", Some(100.0), Some(400.0), 3).get("bytes"), Some(100.0));
        assert_eq!(per_job("bytes", None, None, 3).get("bytes"), None);
    }
}
