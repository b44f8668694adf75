//! The features with which crates are built: all of them, with or without the feature that plants bugs.

use std::path::Path;

use crate::tidy::manifest::Manifest;

/// Test only: lets a test switch on one known bug at a time, for its own thread. Tests and lints are built
/// with it, so that one build serves them all. Docs, benchmarks and the binary are built without it.
const PLANTED_BUGS: &str = "planted-bugs";

/// Every feature of every crate, as `crate/feature`, separated by commas.
pub(crate) fn for_tests(root: &Path) -> Result<String, String> {
    all(root, |_| true)
}

/// The features that users can build: all except [`PLANTED_BUGS`].
pub(crate) fn for_users(root: &Path) -> Result<String, String> {
    all(root, |feature| feature != PLANTED_BUGS)
}

fn all(root: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<String, String> {
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let mut features = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", crates.display()))?.path().join("Cargo.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        features.extend(features_of(&Manifest::read(&text), &is_wanted));
    }
    features.sort();
    Ok(features.join(","))
}

fn features_of(manifest: &Manifest<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let name = manifest.package_name().unwrap_or_default();
    let features = manifest.keys_of("features").into_iter().map(|(_, feature)| feature);
    features.filter(|feature| is_wanted(feature)).map(|feature| format!("{name}/{feature}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_can_build_every_feature_but_the_planted_bugs() {
        let text = "[package]\nname = \"a\"\n[features]\nsqlite = []\nplanted-bugs = []\n[dependencies]\nb = \"1\"\n";
        let manifest = Manifest::read(text);
        assert_eq!(features_of(&manifest, |feature| feature != PLANTED_BUGS), ["a/sqlite"]);
        assert_eq!(features_of(&manifest, |_| true), ["a/sqlite", "a/planted-bugs"]);
    }
}
