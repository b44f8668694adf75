//! Everything has a named limit: no channel is unbounded, except in tests.

use super::Finding;
use super::tree::Tree;

const UNBOUNDED: [&str; 3] = ["unbounded_channel", "UnboundedSender", "mpsc::channel()"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let lines = tree.below("crates/", ".rs").flat_map(|file| {
        let end = file.tests_from().unwrap_or(usize::MAX);
        file.code().take(end).map(move |line| (file, line))
    });
    let found = lines.filter_map(|(file, (index, code))| {
        let word = UNBOUNDED.iter().find(|word| code.contains(**word))?;
        let text = format!("`{word}` has no limit; use a channel with a named limit");
        Some(Finding::of_line(&file.path, index, text))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_without_a_limit_is_found() {
        let count = |text| check(&Tree::of(&[("crates/a/src/b.rs", text)])).len();
        assert_eq!(count("let (tx, rx) = mpsc::unbounded_channel();"), 1);
        assert_eq!(count("let (tx, rx) = std::sync::mpsc::channel();"), 1);
        assert_eq!(count("let (tx, rx) = mpsc::channel(SETTLE_BACKLOG_MAX);"), 0);
        assert_eq!(count("#[cfg(test)]\nmod tests {\n    fn a() { mpsc::unbounded_channel() }\n}"), 0);
    }
}
