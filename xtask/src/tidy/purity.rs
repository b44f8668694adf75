//! Core does no I/O and never reads a clock; the time is an argument.

use super::Finding;
use super::tree::Tree;

const CORE: &str = "crates/windlass-core/src/";
const FOREIGN: [&str; 8] = [
    "std::fs",
    "std::net",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::process",
    "SystemTime",
    "Instant::now",
    "tokio",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let lines = tree.below(CORE, ".rs").flat_map(|file| file.code().map(move |line| (file, line)));
    let found = lines.filter_map(|(file, (index, code))| {
        let word = FOREIGN.iter().find(|word| code.contains(**word))?;
        let text = format!("`{word}` in core; core does no I/O and never reads a clock: pass it in");
        Some(Finding::of_line(&file.path, index, text))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_core_is_found_and_one_elsewhere_is_not() {
        let read = "fn now() {\n    let now = std::time::SystemTime::now();\n}";
        let findings = check(&Tree::of(&[("crates/windlass-core/src/clock.rs", read)]));
        assert_eq!(findings[0].line, Some(2));
        assert_eq!(check(&Tree::of(&[("crates/windlass-engines/src/clock.rs", read)])), []);
    }

    #[test]
    fn a_comment_may_speak_of_clocks() {
        assert_eq!(check(&Tree::of(&[("crates/windlass-core/src/a.rs", "// no tokio here")])), []);
    }
}
