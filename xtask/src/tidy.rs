//! `cargo xtask tidy`: the rules of the code base that a program can check. Each rule is one file. It takes
//! the tree as text and returns findings, so that its test can show on a small made-up tree that it can
//! fail.

use std::fmt;

use crate::command;

mod tree;
pub(crate) mod manifest;
mod mirrors;
mod arrows;
mod purity;
mod sql_headers;
mod lua_headers;
mod bounds;
mod sizes;
mod sleeps;
mod reasons;
mod requirements;
mod links;
mod guides;
mod map;
mod widths;
mod words;
mod dependencies;

use tree::Tree;

/// A rule: its text, and the function that checks it.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: [Rule; 15] = [
    ("engine folders mirror each other", mirrors::check),
    ("crates depend only along the allowed arrows", arrows::check),
    ("core does no I/O and reads no clock", purity::check),
    ("every SQL file has a header with its purpose", sql_headers::check),
    ("every Lua script has a header with its keys, arguments and answers", lua_headers::check),
    ("channels are bounded", bounds::check),
    ("files are small", sizes::check),
    ("tests do not sleep", sleeps::check),
    ("a lint is switched off only with a reason", reasons::check),
    ("requirements name tests that exist", requirements::check),
    ("links in the docs lead somewhere", links::check),
    ("examples in the guides are compiled", guides::check),
    ("the map names files that exist", map::check),
    ("comments end at 110 columns", widths::check),
    ("replaced words do not come back", words::check),
];

/// Checks every rule and prints the findings.
pub(crate) fn run() -> Result<(), String> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} rules hold", RULES.len() + 1);
            Ok(())
        }
        count => Err(format!("tidy: {count} findings")),
    }
}

fn findings() -> Result<Vec<Finding>, String> {
    let tree = Tree::read(&command::root())?;
    let mut findings: Vec<_> = RULES.iter().flat_map(|(_, check)| check(&tree)).collect();
    findings.extend(dependencies::check(&dependencies::of_the_library()?));
    Ok(findings)
}

/// A finding: what is wrong, where, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    text: String,
}

impl Finding {
    fn of_file(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, text: text.into() }
    }

    /// A finding about a line. `index` counts from 0, as `enumerate` does.
    fn of_line(path: &str, index: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(index + 1), text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let findings = findings().unwrap();
        let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{}", lines.join("\n"));
    }

    #[test]
    fn a_complaint_names_file_and_line_as_editors_read_them() {
        assert_eq!(Finding::of_line("a.rs", 6, "too long").to_string(), "a.rs:7: too long");
    }
}
