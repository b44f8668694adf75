//! Examples in the guides are compiled: a guide with Rust in it is one of the doc tests.

use super::Finding;
use super::tree::Tree;

/// The file that names every guide whose examples are doc tests.
const LIST: &str = "crates/windlass/src/guides.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let listed = tree.file(LIST).map_or("", |file| file.text.as_str());
    let with_rust = tree.below("docs/", ".md").filter(|file| file.text.contains("```rust"));
    let unlisted = with_rust.filter(|file| !listed.contains(&format!("/{}\"", file.path)));
    let advice = format!("its Rust examples are not compiled; add it to {LIST}");
    unlisted.map(|file| Finding::of_file(&file.path, advice.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guide_whose_examples_no_test_compiles_is_found() {
        let guide = ("docs/keys.md", "```rust\nlet a = 1;\n```");
        let list = (LIST, "#[doc = include_str!(\"../../../docs/keys.md\")]");
        assert_eq!(check(&Tree::of(&[guide, list])), []);
        assert_eq!(check(&Tree::of(&[guide]))[0].path, "docs/keys.md");
        assert_eq!(check(&Tree::of(&[("docs/cli.md", "no Rust here")])), []);
    }
}
