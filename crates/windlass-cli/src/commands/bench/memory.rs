//! What jobs take of a server's memory, where they lie in it.

use super::env::Env;
use super::figures::Figures;
use super::fixture::At;
use super::{failed, rest};
use crate::exit::Failure;

/// Bytes that the server's data take, when it is at rest; nothing if jobs do not lie in a server's memory.
pub(super) async fn used(env: &Env<'_>) -> Result<Option<f64>, Failure> {
    let At::Namespace(url, _) = &env.place.at else { return Ok(None) };
    env.rest().await?;
    let mut connection = rest::connect(url).await?;
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut connection).await.map_err(failed)?;
    Ok(of_data(&info))
}

/// What is on its way to the disk belongs to no job. What connections hold is little, and the server tells it late.
fn of_data(info: &str) -> Option<f64> {
    let number = |name: &str| -> Option<f64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    };
    Some(number("used_memory")? - number("mem_aof_buffer").unwrap_or_default())
}

/// How much each of these jobs took, if it was measured before and after they came.
pub(super) fn per_job(name: &'static str, before: Option<f64>, after: Option<f64>, jobs: u64) -> Figures {
    match (before, after) {
        (Some(before), Some(after)) => Figures::default().with(name, (after - before) / jobs as f64),
        _ => Figures::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_to_the_disk_is_no_data() {
        let info = "used_memory:1000\r\nused_memory_rss:5000\r\nmem_aof_buffer:50\r\n";
        assert_eq!(of_data(info), Some(950.0));
        assert_eq!(of_data("used_memory:1000\r\n"), Some(1000.0), "old servers tell less");
        assert_eq!(of_data(""), None);
    }

    #[test]
    fn what_was_not_measured_is_missing() {
        assert_eq!(per_job("bytes", Some(100.0), Some(400.0), 3).get("bytes"), Some(100.0));
        assert_eq!(per_job("bytes", None, None, 3).get("bytes"), None);
    }
}
