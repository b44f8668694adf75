//! The part of a `Cargo.toml` that rules need: the keys under each heading.

/// A manifest as (line, heading, key, value).
pub(crate) struct Manifest<'a> {
    entries: Vec<(usize, &'a str, &'a str, &'a str)>,
}

impl<'a> Manifest<'a> {
    /// Reads headings and the first line of each entry. An entry may continue over several lines.
    pub(crate) fn read(text: &'a str) -> Self {
        let mut heading = "";
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                heading = name.trim_matches(['[', ']']);
                // `[dependencies.tokio]` is an entry too.
                if let Some((above, key)) = heading.rsplit_once("dependencies.") {
                    let above = &heading[..above.len() + "dependencies".len()];
                    entries.push((index, above, key, ""));
                }
            } else if let Some((key, value)) = line.split_once('=') {
                // `serde.workspace = true` is an entry of `serde`.
                let key = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
                entries.push((index, heading, key, value.trim()));
            }
        }
        Self { entries }
    }

    /// The keys under a heading, each with the index of its line.
    pub(crate) fn keys_of(&self, heading: &str) -> Vec<(usize, &'a str)> {
        let under = self.entries.iter().filter(|(_, above, ..)| *above == heading);
        under.map(|(index, _, key, _)| (*index, *key)).collect()
    }

    /// The dependencies for running and building, each with the index of its line; without those of tests.
    pub(crate) fn dependencies(&self) -> Vec<(usize, &'a str)> {
        let is_needed =
            |heading: &str| heading.ends_with("dependencies") && !heading.ends_with("dev-dependencies");
        let needed = self.entries.iter().filter(|(_, heading, ..)| is_needed(heading));
        needed.map(|(index, _, key, _)| (*index, *key)).collect()
    }

    /// The name of the package.
    pub(crate) fn package_name(&self) -> Option<&'a str> {
        let name = self.entries.iter().find(|(_, heading, key, _)| *heading == "package" && *key == "name");
        name.map(|(.., value)| value.trim_matches('"'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_every_spelling_and_those_of_tests_left_out() {
        let text = "\
[package]
name = \"a\"
[dependencies]
b.workspace = true # why
c = { version = \"1\" }
[dependencies.d]
version = \"2\"
[target.'cfg(unix)'.dependencies]
e = \"1\"
[dev-dependencies]
f = \"1\"";
        let manifest = Manifest::read(text);
        let keys: Vec<_> = manifest.dependencies().into_iter().map(|(_, key)| key).collect();
        assert_eq!(keys, ["b", "c", "d", "e"]);
        assert_eq!(manifest.package_name(), Some("a"));
    }
}
