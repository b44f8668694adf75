//! The test programs: cargo builds them, and reports the path and the source of each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command;

/// A test program that can be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its main source file, relative to the root of the repository, such as `crates/windlass/src/lib.rs`.
    pub(crate) source: String,
    path: PathBuf,
    /// The folder of its package, in which cargo would run it.
    folder: PathBuf,
}

/// Builds the test programs that a call of `cargo test` would run, without running them.
pub(crate) fn build(test: &mut Command) -> Result<Vec<Program>, String> {
    let (root, mut programs) = (command::root(), Vec::new());
    test.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    command::run_and_read(test, |line| programs.extend(Program::read(line, &root)))?;
    let is_there = |source: &String| programs.iter().any(|program| program.source == *source);
    match expected(&root)?.into_iter().find(|source| !is_there(source)) {
        None => Ok(programs),
        Some(missing) => {
            Err(format!("expected the test program of {missing} in the messages of cargo, got none"))
        }
    }
}

/// The sources that become test programs by their path, so that no program is left out if cargo should
/// change its messages one day.
fn expected(root: &Path) -> Result<Vec<String>, String> {
    let mut sources = Vec::new();
    for package in folder(&root.join("crates"))?.into_iter().chain([root.join("xtask")]) {
        let mains = ["src/lib.rs", "src/main.rs"].map(|name| package.join(name));
        let tests = folder(&package.join("tests")).unwrap_or_default();
        let tests = tests.into_iter().map(|path| if path.is_dir() { path.join("main.rs") } else { path });
        sources.extend(mains.into_iter().chain(tests).filter(|path| path.is_file()));
    }
    let source = |path: PathBuf| path.strip_prefix(root).map(|path| path.to_string_lossy().into_owned()).ok();
    Ok(sources.into_iter().filter_map(source).collect())
}

fn folder(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", path.display());
    let entries = std::fs::read_dir(path).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

impl Program {
    /// Parses one of cargo's messages, which is a line of JSON. Returns `None` if the message has another
    /// subject.
    fn read(line: &str, root: &Path) -> Option<Self> {
        if !line.starts_with(r#"{"reason":"compiler-artifact""#) {
            return None;
        }
        // The target, too, has a field `test`: whether it could be tested.
        let (_, profile) = line.split_once(r#""profile":{"#)?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains(r#""test":true"#) {
            return None;
        }
        let source = Path::new(text_of(line, "src_path")?).strip_prefix(root).ok()?;
        let folder = Path::new(text_of(line, "manifest_path")?).parent()?;
        Some(Self {
            source: source.to_string_lossy().into_owned(),
            path: text_of(line, "executable")?.into(),
            folder: folder.to_owned(),
        })
    }

    #[cfg(test)]
    pub(crate) fn of(source: &str) -> Self {
        Self { source: source.to_owned(), path: PathBuf::new(), folder: PathBuf::new() }
    }

    /// The command with which cargo would run the program.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command::as_from_a_shell(&mut command).current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null());
        command
    }
}

/// The text of a field in a line of JSON. A path with quotes would not be found, and its program would not
/// run.
fn text_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(r#""{name}":""#))?;
    rest.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/a#0.1.0","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"b","src_path":"/w/crates/a/tests/b.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"1","debuginfo":"line-tables-only","debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/w/target/debug/deps/b-1"],"executable":"/w/target/debug/deps/b-1","fresh":true}"#;

    #[test]
    fn a_program_is_run_as_cargo_would_run_it() {
        let program = Program::read(MESSAGE, Path::new("/w")).unwrap();
        assert_eq!(program.source, "crates/a/tests/b.rs");
        let command = program.command();
        assert_eq!(command.get_program(), "/w/target/debug/deps/b-1");
        assert_eq!(command.get_current_dir(), Some(Path::new("/w/crates/a")));
    }

    #[test]
    fn every_place_in_which_tests_lie_is_expected_to_become_a_program() {
        let expected = expected(&command::root()).unwrap();
        for source in ["crates/windlass/src/lib.rs", "crates/windlass-cli/src/main.rs", "xtask/src/main.rs"] {
            assert!(expected.iter().any(|known| known == source), "{source}");
        }
        for source in ["crates/windlass-core/tests/schedules.rs", "crates/windlass/tests/simulation/main.rs"]
        {
            assert!(expected.iter().any(|known| known == source), "{source}");
        }
        assert!(expected.iter().all(|source| !source.contains("crew")));
    }

    #[test]
    fn what_is_built_for_tests_to_use_is_no_test_program() {
        let used = MESSAGE
            .replace(r#""overflow_checks":true,"test":true"#, r#""overflow_checks":true,"test":false"#);
        let finished = r#"{"reason":"build-finished","success":true}"#;
        let library = MESSAGE.replace(r#""executable":"/w/target/debug/deps/b-1""#, r#""executable":null"#);
        for other in [&used, &library, finished, ""] {
            assert_eq!(Program::read(other, Path::new("/w")), None, "{other}");
        }
    }
}
