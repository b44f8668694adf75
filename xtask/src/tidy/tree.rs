//! The repository as text: every file that a rule may read.

use std::path::Path;

/// Folders without files of ours.
const LEFT_OUT: [&str; 3] = ["target", ".git", "node_modules"];
/// The endings of files that rules read.
const ENDINGS: [&str; 6] = [".rs", ".toml", ".sql", ".lua", ".md", ".sh"];

/// All files, by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

/// A file. Its path starts at the root and is written with `/`.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    /// Reads the repository.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type().map_err(failed)?.is_dir() {
                if !LEFT_OUT.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                let text =
                    std::fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    /// The files below a folder with an ending.
    pub(super) fn below<'a>(&'a self, folder: &'a str, ending: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.starts_with(folder) && file.path.ends_with(ending))
    }

    /// Returns one file.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A made-up tree, to show that a rule can fail.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() });
        Self { files: files.collect() }
    }
}

impl File {
    /// The lines of code, without comments, each with its index.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().map(without_comment).enumerate()
    }

    /// The index of the line from which the file is test code, if it has any.
    pub(super) fn tests_from(&self) -> Option<usize> {
        let whole = self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.starts_with("crates/windlass-conformance/")
            || self.text.lines().any(|line| line == "#![cfg(test)]");
        if whole {
            return Some(0);
        }
        // A test module is at the end of its file, below `#[cfg(test)]`.
        let module = |(index, line): (usize, &str)| {
            let next = self.text.lines().nth(index + 1).unwrap_or_default();
            (line.trim() == "#[cfg(test)]" && next.trim_start().starts_with("mod ")).then_some(index)
        };
        self.text.lines().enumerate().find_map(module)
    }
}

/// The line up to `//`. A `//` inside a text counts as a comment too, which is good enough here: rules
/// search for calls.
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_begin_at_the_test_module_or_fill_the_file() {
        let from = |path, text| Tree::of(&[(path, text)]).files[0].tests_from();
        assert_eq!(from("a/src/x.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}\n"), Some(1));
        assert_eq!(from("a/src/x.rs", "#[cfg(test)]\nfn helper() {}\n"), None);
        assert_eq!(from("a/src/x/tests.rs", "fn a() {}\n"), Some(0));
        assert_eq!(from("a/tests/x.rs", "fn a() {}\n"), Some(0));
        assert_eq!(from("a/src/x.rs", "//! Plans.\n#![cfg(test)]\nfn a() {}\n"), Some(0));
    }

    #[test]
    fn comments_are_not_code() {
        let tree = Tree::of(&[("a.rs", "let a = 1; // SystemTime\n//! tokio")]);
        let code: Vec<_> = tree.files[0].code().collect();
        assert_eq!(code, [(0, "let a = 1; "), (1, "")]);
    }
}
