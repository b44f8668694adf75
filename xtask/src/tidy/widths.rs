//! Comments end where code ends: at 110 columns. The formatter wraps code, but no tool wraps comments.

use super::Finding;
use super::tree::{File, Tree};

const COLUMNS: usize = 110;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let kinds = [(".rs", "//"), (".sql", "--"), (".lua", "--")];
    kinds
        .iter()
        .flat_map(|(ending, mark)| tree.below("", ending).flat_map(move |file| check_file(file, mark)))
        .collect()
}

fn check_file<'a>(file: &'a File, mark: &'a str) -> impl Iterator<Item = Finding> + 'a {
    let comments = file.text.lines().enumerate().filter(move |(_, line)| line.trim_start().starts_with(mark));
    comments.filter_map(|(index, line)| {
        let columns = line.chars().count();
        // An address cannot be wrapped.
        let is_too_long = columns > COLUMNS && !line.contains("https://");
        is_too_long.then(|| Finding::of_line(&file.path, index, advice(columns)))
    })
}

fn advice(columns: usize) -> String {
    format!("expected a comment of at most {COLUMNS} columns, got {columns}; wrap it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, line: &str) -> usize {
        check(&Tree::of(&[(path, line)])).len()
    }

    #[test]
    fn a_comment_that_is_too_long_is_found_in_each_language() {
        let long = "x".repeat(COLUMNS);
        assert_eq!(count("a.rs", &format!("    /// {long}")), 1);
        assert_eq!(count("a.sql", &format!("-- {long}")), 1);
        assert_eq!(count("a.lua", &format!("-- {long}")), 1);
    }

    #[test]
    fn code_and_addresses_may_be_longer() {
        let long = "x".repeat(COLUMNS);
        assert_eq!(count("a.rs", &format!("let text = \"{long}\";")), 0);
        assert_eq!(count("a.rs", &format!("/// https://example.org/{long}")), 0);
        assert_eq!(count("a.rs", &format!("// {}", "x".repeat(COLUMNS - 3))), 0);
    }
}
