//! Tests do not sleep: they move the clock or wait for a signal. Where a sleep is needed (a handler that
//! must outlive its timeout), the same line or one of the two lines above has [`MARK`] and a reason.

use super::Finding;
use super::tree::{File, Tree};

const SLEEP: &str = "sleep(Duration::from_";
const MARK: &str = "may sleep:";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.below("crates/", ".rs").flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let Some(first) = file.tests_from() else { return Vec::new() };
    let lines: Vec<_> = file.text.lines().collect();
    let sleeps = file.code().skip(first).filter(|(_, code)| code.contains(SLEEP));
    let unexplained = sleeps.filter(|(index, _)| !is_explained(&lines, *index));
    unexplained.map(|(index, _)| Finding::of_line(&file.path, index, advice())).collect()
}

fn is_explained(lines: &[&str], index: usize) -> bool {
    lines[index.saturating_sub(2)..=index].iter().any(|line| {
        line.split_once("//")
            .and_then(|(_, comment)| comment.split_once(MARK))
            .is_some_and(|(_, why)| why.len() > 10)
    })
}

fn advice() -> String {
    format!("a test sleeps; move the clock or wait for a signal, or give a reason: `// {MARK} …`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = concat!("    sleep(", "Duration::from_millis(300)).await;");

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("crates/a/tests/b.rs", text)])).len()
    }

    #[test]
    fn a_sleep_in_a_test_is_found() {
        assert_eq!(count(PLAIN), 1);
        assert_eq!(count(&format!("// wait a bit\n{PLAIN}")), 1);
    }

    #[test]
    fn a_sleep_with_a_reason_may_stay() {
        assert_eq!(count(&format!("// may sleep: the handler must outlive its timeout\n{PLAIN}")), 0);
        assert_eq!(count(&format!("// may sleep:\n{PLAIN}")), 1, "a mark without a reason is no reason");
    }

    #[test]
    fn code_that_is_no_test_may_sleep() {
        assert_eq!(check(&Tree::of(&[("crates/a/src/b.rs", PLAIN)])), []);
    }
}
