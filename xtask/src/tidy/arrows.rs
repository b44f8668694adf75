//! Which of our crates may depend on which. A new dependency needs a reason in `docs/decisions/`.
//! Dependencies of tests are free.

use super::Finding;
use super::manifest::Manifest;
use super::tree::{File, Tree};

const ARROWS: [(&str, &[&str]); 9] = [
    ("windlass-core", &[]),
    ("windlass-conformance", &["windlass-core"]),
    ("windlass-engines", &["windlass-core"]),
    ("windlass", &["windlass-core", "windlass-engines"]),
    ("windlass-cli", &["windlass-core", "windlass-engines", "windlass"]),
    ("windlass-bench", &["windlass"]),
    ("windlass-servers", &[]),
    ("xtask", &["windlass-servers"]),
    // A separate workspace, in bench/peers: it measures other queues, and must not need Windlass to be
    // built.
    ("peers", &[]),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let manifest = Manifest::read(&file.text);
    let name = manifest.package_name().unwrap_or_default();
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        let text = format!(
            "crate {name:?} is not in the table of xtask/src/tidy/arrows.rs; a new crate needs a reason in \
             docs/decisions/"
        );
        return vec![Finding::of_file(&file.path, text)];
    };
    let ours = manifest.dependencies().into_iter().filter(|(_, key)| key.starts_with("windlass"));
    let wrong = ours.filter(|(_, key)| !allowed.contains(key));
    wrong.map(|(index, key)| Finding::of_line(&file.path, index, against(name, key, allowed))).collect()
}

fn against(name: &str, key: &str, allowed: &[&str]) -> String {
    let allowed = if allowed.is_empty() { "no crate of ours".to_owned() } else { allowed.join(", ") };
    format!("{name} may depend on {allowed}, got {key}; a new dependency needs a reason in docs/decisions/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str) -> Vec<Finding> {
        check(&Tree::of(&[("crates/x/Cargo.toml", manifest)]))
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_refused() {
        let good = "[package]\nname = \"windlass-engines\"\n[dependencies]\nwindlass-core.workspace = true\n";
        assert_eq!(findings(good), []);
        let bad = "[package]\nname = \"windlass-core\"\n[dependencies]\nwindlass-engines.workspace = true\n";
        assert_eq!(findings(bad)[0].line, Some(4));
    }

    #[test]
    fn tests_may_depend_on_anything() {
        let text = "[package]\nname = \"windlass-core\"\n[dev-dependencies]\nwindlass.workspace = true\n";
        assert_eq!(findings(text), []);
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_refused() {
        assert_eq!(findings("[package]\nname = \"windlass-extra\"\n").len(), 1);
    }
}
