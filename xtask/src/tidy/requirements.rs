//! `docs/requirements.md` lists every requirement once, and each requirement that is shown names tests that
//! exist. So does each promise in `docs/promises.md`.

use std::collections::HashSet;

use super::Finding;
use super::tree::Tree;

const PAGE: &str = "docs/requirements.md";
const PROMISES: &str = "docs/promises.md";
/// The number of requirements in each chapter.
const CHAPTERS: [(char, u32); 6] = [('A', 9), ('B', 21), ('C', 20), ('D', 4), ('E', 7), ('F', 14)];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return vec![Finding::of_file(PAGE, "expected this page")] };
    let rows: Vec<_> =
        page.text.lines().enumerate().filter_map(|(index, line)| Row::read(index, line)).collect();
    let tests = test_functions(tree);
    let wrong = rows.iter().flat_map(|row| row.findings(&tests));
    wrong.chain(missing_or_twice(&rows)).chain(unguarded_promises(tree, &tests)).collect()
}

/// Checks the page of promises, whose rows are `| promise | tests |`.
fn unguarded_promises(tree: &Tree, tests: &HashSet<&str>) -> Vec<Finding> {
    let lines = tree.file(PROMISES).map(|page| page.text.lines()).into_iter().flatten();
    let rows = lines.enumerate().filter_map(|(index, line)| Some((index, line.strip_prefix("| ")?)));
    let promises = rows.filter(|(_, row)| !row.starts_with("promise |"));
    let findings = promises.flat_map(|(index, row)| {
        let named = names_in(row.rsplit(" | ").next().unwrap_or_default());
        let complain = |text: String| Finding::of_line(PROMISES, index, text);
        let none = named.is_empty().then(|| complain("expected a test that guards this promise".to_owned()));
        let unknown = named.into_iter().filter(|test| !tests.contains(last_name(test)));
        let unknown = unknown.map(|test| complain(format!("there is no test `{test}`")));
        none.into_iter().chain(unknown.collect::<Vec<_>>())
    });
    findings.collect()
}

/// The names between backticks, which are every second piece.
fn names_in(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// A line of the table: `| A1 | the requirement | shown | tests | what is missing |`.
struct Row<'a> {
    index: usize,
    number: &'a str,
    status: &'a str,
    tests: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn read(index: usize, line: &'a str) -> Option<Self> {
        let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [number, _, status, tests, ..] = cells[..] else { return None };
        let (letter, digits) = number.split_at_checked(1)?;
        let is_number =
            CHAPTERS.iter().any(|(chapter, _)| letter.starts_with(*chapter)) && digits.parse::<u32>().is_ok();
        let tests = names_in(tests);
        is_number.then_some(Self { index, number, status, tests })
    }

    fn findings(&self, tests: &HashSet<&str>) -> Vec<Finding> {
        let complain = |text: String| Finding::of_line(PAGE, self.index, text);
        match (self.status, self.tests.is_empty()) {
            ("shown" | "partly", true) => {
                vec![complain(format!("{} is {}, but no test is named", self.number, self.status))]
            }
            ("shown" | "partly", false) | ("not built yet", _) => {
                let unknown = self.tests.iter().filter(|test| !tests.contains(last_name(test)));
                unknown.map(|test| complain(format!("{}: there is no test `{test}`", self.number))).collect()
            }
            (other, _) => vec![complain(format!("expected shown, partly or not built yet, got {other:?}"))],
        }
    }
}

fn last_name(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The names of all functions in test code.
fn test_functions(tree: &Tree) -> HashSet<&str> {
    let files = tree.below("", ".rs").filter_map(|file| Some((file, file.tests_from()?)));
    let lines = files.flat_map(|(file, first)| file.code().skip(first));
    lines.filter_map(|(_, code)| function_name(code)).collect()
}

fn function_name(code: &str) -> Option<&str> {
    let (before, rest) = code.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| matches!(word, "pub" | "async" | "pub(crate)"));
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    is_declaration.then_some(&rest[..end])
}

fn missing_or_twice(rows: &[Row<'_>]) -> Vec<Finding> {
    let numbers =
        CHAPTERS.iter().flat_map(|(chapter, last)| (1..=*last).map(move |n| format!("{chapter}{n}")));
    let wrong = numbers.filter_map(|number| {
        let times = rows.iter().filter(|row| row.number == number).count();
        (times != 1).then(|| Finding::of_file(PAGE, format!("expected {number} once, got it {times} times")))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: (&str, &str) = (
        "crates/a/tests/b.rs",
        "#[test]\nfn a_key_is_freed() {}\npub async fn jobs_leave_by_priority(h: &H) {}\n",
    );

    /// The findings about a page on which everything but the given line is not built yet.
    fn findings(line: &str) -> Vec<String> {
        let number = line.split('|').nth(1).unwrap_or_default().trim().to_owned();
        let all =
            CHAPTERS.iter().flat_map(|(chapter, last)| (1..=*last).map(move |n| format!("{chapter}{n}")));
        let others =
            all.filter(|other| *other != number).map(|other| format!("| {other} | x | not built yet | |\n"));
        let page = others.chain([line.to_owned()]).collect::<String>();
        check(&Tree::of(&[TESTS, (PAGE, &page)])).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        assert_eq!(
            findings("| A1 | x | shown | `a_key_is_freed`, `conformance::jobs_leave_by_priority` |"),
            [""; 0]
        );
        assert_eq!(
            findings("| A1 | x | shown | `a_key_is_lost` |"),
            ["A1: there is no test `a_key_is_lost`"]
        );
    }

    #[test]
    fn a_promise_without_a_test_that_exists_is_found() {
        let tree = |rows| Tree::of(&[TESTS, (PROMISES, rows)]);
        let tests = HashSet::from(["a_key_is_freed"]);
        let found = |rows| unguarded_promises(&tree(rows), &tests).len();
        assert_eq!(found("| promise | tests |\n|---|---|\n| `x` is y. | `a_key_is_freed` |\n"), 0);
        assert_eq!(found("| `x` is y. | `a_key_is_lost` |\n"), 1);
        assert_eq!(found("| `x` is y. | by hand |\n"), 1);
    }

    #[test]
    fn what_is_shown_names_a_test() {
        assert_eq!(findings("| B3 | x | shown | |"), ["B3 is shown, but no test is named"]);
        assert_eq!(findings("| B3 | x | perhaps | |").len(), 1);
    }

    #[test]
    fn a_number_that_is_missing_or_listed_twice_is_found() {
        assert_eq!(findings("nothing").len(), 0);
        assert_eq!(findings("| C4 | x | not built yet | |\n| C4 | x | not built yet | |\n").len(), 1);
        assert_eq!(check(&Tree::of(&[(PAGE, "")])).len(), 75);
    }
}
