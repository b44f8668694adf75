//! Engine folders mirror each other file for file: a reader who knows one knows all. Memory is the model.

use super::Finding;
use super::tree::Tree;

const ENGINES: &str = "crates/windlass-engines/src/";
const MODEL: &str = "memory";
const MIRRORS: [&str; 3] = ["sqlite", "postgres", "redis"];

/// Files of memory that need no counterpart, and why.
const ONLY_IN_MEMORY: [(&str, &str); 4] = [
    ("state.rs", "the rows and indexes that a schema has in other engines"),
    ("state/", "its parts"),
    ("spool.rs", "only memory and SQLite keep jobs for an unavailable engine"),
    ("tests.rs", "tests of those indexes; what engines have in common is in windlass-conformance"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, &ONLY_IN_MEMORY)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let model = format!("{ENGINES}{MODEL}/");
    let names: Vec<_> = tree.below(&model, ".rs").map(|file| &file.path[model.len()..]).collect();
    let is_excepted = |name: &str| exceptions.iter().any(|(excepted, _)| covers(excepted, name));
    let missing = names.iter().filter(|name| !is_excepted(name)).flat_map(|name| {
        let begun = MIRRORS.iter().filter(|mirror| is_begun(tree, mirror));
        let counterparts = begun.map(move |mirror| format!("{ENGINES}{mirror}/{name}"));
        counterparts.filter(|path| tree.file(path).is_none()).map(move |path| {
            let text = format!(
                "expected the counterpart of {MODEL}/{name}; add it, or list {name} with a reason in \
                 xtask/src/tidy/mirrors.rs"
            );
            Finding::of_file(&path, text)
        })
    });
    let stale = exceptions
        .iter()
        .filter(|(excepted, _)| !names.iter().any(|name| covers(excepted, name)))
        .map(|(name, _)| {
            Finding::of_file(
                "xtask/src/tidy/mirrors.rs",
                format!("{MODEL}/{name} does not exist; remove it from the list"),
            )
        });
    missing.chain(stale).collect()
}

/// Whether an exception covers a file. It names a file, or a folder with everything in it.
fn covers(excepted: &str, name: &str) -> bool {
    excepted == name || (excepted.ends_with('/') && name.starts_with(excepted))
}

/// Whether an engine is begun. A folder with nothing but its `mod.rs` is room for a future engine.
fn is_begun(tree: &Tree, engine: &str) -> bool {
    tree.below(&format!("{ENGINES}{engine}/"), ".rs").any(|file| !file.path.ends_with("/mod.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY_CLAIM: (&str, &str) = ("crates/windlass-engines/src/memory/claim.rs", "");
    const SQLITE_SETTLE: (&str, &str) = ("crates/windlass-engines/src/sqlite/settle.rs", "");
    const SQLITE_CLAIM: (&str, &str) = ("crates/windlass-engines/src/sqlite/claim.rs", "");

    #[test]
    fn a_file_without_its_counterpart_is_named() {
        assert_eq!(check_with(&Tree::of(&[MEMORY_CLAIM, SQLITE_CLAIM]), &[]), []);
        let findings = check_with(&Tree::of(&[MEMORY_CLAIM, SQLITE_SETTLE]), &[]);
        assert_eq!(findings[0].path, SQLITE_CLAIM.0);
    }

    #[test]
    fn an_exception_holds_only_while_its_file_is_there() {
        let exceptions = [("claim.rs", "made up")];
        assert_eq!(check_with(&Tree::of(&[MEMORY_CLAIM, SQLITE_SETTLE]), &exceptions), []);
        assert_eq!(check_with(&Tree::of(&[]), &exceptions).len(), 1);
    }
}
