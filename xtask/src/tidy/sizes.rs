//! No file grows past a size, and clippy limits the size of functions by a number that may not rise.

use super::Finding;
use super::tree::Tree;

/// The maximum number of lines of a source file, tests included.
const LINES_MAX: usize = 600;
/// The maximum number of lines of a function, as `clippy.toml` has it.
const FUNCTION_LINES: &str = "too-many-lines-threshold = 70";

/// Files that may be longer: how long, and why.
const LONGER: [(&str, usize, &str); 0] = [];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_files(tree, &LONGER);
    let settings = tree.file("clippy.toml").map_or("", |file| file.text.as_str());
    if !settings.lines().any(|line| line.trim() == FUNCTION_LINES) {
        findings.push(Finding::of_file("clippy.toml", format!("expected `{FUNCTION_LINES}`")));
    }
    findings
}

fn check_files(tree: &Tree, longer: &[(&str, usize, &str)]) -> Vec<Finding> {
    let too_long = tree.below("", ".rs").filter_map(|file| {
        let lines = file.text.lines().count();
        let exception = longer.iter().find(|(path, ..)| *path == file.path);
        let max = exception.map_or(LINES_MAX, |(_, max, _)| *max);
        let text = format!("expected at most {max} lines, got {lines}; it probably has two topics; split it");
        (lines > max).then(|| Finding::of_file(&file.path, text))
    });
    let stale = longer
        .iter()
        .filter(|(path, ..)| tree.file(path).is_none_or(|file| file.text.lines().count() <= LINES_MAX));
    let stale = stale.map(|(path, ..)| {
        Finding::of_file(path, "no longer too long; remove it from the list in xtask/src/tidy/sizes.rs")
    });
    too_long.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_is_found() {
        let text = "\n".repeat(LINES_MAX + 1);
        let tree = Tree::of(&[("a.rs", &text), ("b.rs", "\n")]);
        assert_eq!(check_files(&tree, &[]).len(), 1);
        assert_eq!(check_files(&tree, &[("a.rs", LINES_MAX + 1, "made up")]), []);
    }

    #[test]
    fn an_exception_may_not_grow_and_leaves_the_list_when_it_is_not_needed() {
        let text = "\n".repeat(LINES_MAX + 2);
        assert_eq!(
            check_files(&Tree::of(&[("a.rs", &text)]), &[("a.rs", LINES_MAX + 1, "made up")]).len(),
            1
        );
        assert_eq!(check_files(&Tree::of(&[("a.rs", "")]), &[("a.rs", LINES_MAX + 1, "made up")]).len(), 1);
    }

    #[test]
    fn the_limit_of_functions_may_not_be_taken_away() {
        assert_eq!(check(&Tree::of(&[("clippy.toml", "too-many-lines-threshold = 700")])).len(), 1);
        assert_eq!(check(&Tree::of(&[("clippy.toml", FUNCTION_LINES)])), []);
    }
}
