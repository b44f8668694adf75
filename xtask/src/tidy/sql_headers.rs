//! Every SQL and Lua file begins with a comment that states its purpose.

use super::Finding;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let scripts = tree.below("", ".sql").chain(tree.below("", ".lua"));
    scripts.filter(|file| !has_header(file)).map(complain).collect()
}

fn has_header(file: &File) -> bool {
    let first = file.text.lines().next().unwrap_or_default();
    first.strip_prefix("-- ").is_some_and(|words| words.split_whitespace().count() >= 3)
}

fn complain(file: &File) -> Finding {
    Finding::of_line(
        &file.path,
        0,
        "expected a first line such as `-- settle: apply one transition, only while …`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_without_a_header_is_found() {
        let bare = ("a/sql/claim.sql", "UPDATE job SET state = 1;");
        let thin = ("a/sql/list.sql", "-- list\nSELECT 1;");
        let good = ("a/sql/settle.sql", "-- settle: apply one transition\nUPDATE job SET state = 2;");
        let findings = check(&Tree::of(&[bare, thin, good]));
        let paths: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, [bare.0, thin.0]);
    }
}
