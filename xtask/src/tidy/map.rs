//! The map in `ARCHITECTURE.md` names files and folders that exist.

use super::Finding;
use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file(MAP) else { return vec![Finding::of_file(MAP, "expected this page")] };
    let lines = map.text.lines().enumerate();
    // Every second piece is between backticks.
    let words =
        lines.flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |word| (index, word)));
    let gone = words.filter(|(_, word)| is_place(word) && !exists(tree, word));
    gone.map(|(index, word)| Finding::of_line(MAP, index, format!("there is no `{word}`"))).collect()
}

fn is_place(word: &str) -> bool {
    word.ends_with(".rs") || word.ends_with('/')
}

/// Whether a file or folder exists. A file may be named by the end of its path, a folder by any part of it.
fn exists(tree: &Tree, place: &str) -> bool {
    let place = format!("/{place}");
    tree.files.iter().any(|file| {
        let path = format!("/{}", file.path);
        path.ends_with(&place) || (place.ends_with('/') && path.contains(&place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(map: &str) -> usize {
        check(&Tree::of(&[(MAP, map), ("crates/a/src/claim.rs", ""), ("crates/a/src/worker/pool.rs", "")]))
            .len()
    }

    #[test]
    fn a_file_that_is_gone_is_found() {
        assert_eq!(findings("`claim.rs`, `worker/pool.rs`, `crates/a/src/`, `NewJob → Job`"), 0);
        assert_eq!(findings("`laim.rs`"), 1);
        assert_eq!(findings("`worker/claim.rs` and `b/`"), 2);
    }
}
