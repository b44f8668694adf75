//! Which features tests run with: all of them, but for the one that plants bugs.

use std::path::Path;

use crate::tidy::manifest::Manifest;

/// Test only: switches known bugs on, one at a time. The simulation has a build of its own for it; anywhere
/// else it would test a program that nobody ships.
pub(crate) const PLANTED_BUGS: &str = "planted-bugs";

/// Every feature of every crate but [`PLANTED_BUGS`], as `crate/feature`, separated by commas.
pub(crate) fn all_but_planted_bugs(root: &Path) -> Result<String, String> {
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let mut features = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", crates.display()))?.path().join("Cargo.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        features.extend(features_of(&Manifest::read(&text)));
    }
    features.sort();
    Ok(features.join(","))
}

fn features_of(manifest: &Manifest<'_>) -> Vec<String> {
    let name = manifest.package_name().unwrap_or_default();
    let features = manifest.keys_of("features").into_iter().map(|(_, feature)| feature);
    features.filter(|feature| *feature != PLANTED_BUGS).map(|feature| format!("{name}/{feature}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_on_but_the_planted_bugs() {
        let text = "[package]\nname = \"a\"\n[features]\nsqlite = []\nplanted-bugs = []\n[dependencies]\nb = \"1\"\n";
        assert_eq!(features_of(&Manifest::read(text)), ["a/sqlite"]);
    }
}
