//! The library without features, with the memory engine only, has few dependencies.

use std::collections::BTreeSet;

use super::Finding;
use crate::command;

/// The limit of the number of crates, ours included, which is not reached.
const CRATES_BELOW: usize = 60;

/// Every crate that the library needs without features, one a line.
pub(super) fn of_the_library() -> Result<String, String> {
    command::output_of(&mut command::cargo(&[
        "tree",
        "--package",
        "windlass",
        "--no-default-features",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--no-dedupe",
    ]))
}

pub(super) fn check(crates: &str) -> Option<Finding> {
    let count = crates.lines().filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len();
    let text = format!("expected fewer than {CRATES_BELOW} crates without features, got {count}");
    (count >= CRATES_BELOW).then(|| Finding::of_file("crates/windlass/Cargo.toml", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(count: usize) -> String {
        (0..count).map(|n| format!("a{n} v1.0.0\na{n} v1.0.0\n")).collect()
    }

    #[test]
    fn too_many_crates_are_found_and_each_counts_once() {
        assert_eq!(check(&crates(CRATES_BELOW - 1)), None);
        assert!(check(&crates(CRATES_BELOW)).is_some());
    }
}
