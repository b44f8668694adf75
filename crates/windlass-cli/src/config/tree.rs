//! The configuration before it is interpreted: one tree, whether it came from TOML, YAML or the
//! environment. Every value has the position at which it was written.

use std::fmt;
use std::sync::Arc;

use super::database_url::without_password;

/// The position at which a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// A position in a file; line and column count from 1.
    File { file: Arc<str>, line: u64, column: u64 },
    /// An environment variable of this name.
    Env(Arc<str>),
}

impl Position {
    /// The rank by which errors are sorted: in the order of the file, with variables at the end.
    pub(crate) fn rank(&self) -> (u64, u64, Arc<str>) {
        match self {
            Self::File { file, line, column } => (*line, *column, Arc::clone(file)),
            Self::Env(name) => (u64::MAX, 0, Arc::clone(name)),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Env(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) position: Position,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is not whole or does not fit, as it was written.
    Number(String),
    Text(String),
    /// The text of an environment variable: it may mean a number, a flag or a text.
    Raw(String),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// Describes the value, for the second half of a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(flag) => flag.to_string(),
            Self::Int(number) => number.to_string(),
            Self::Number(text) => shortened(text),
            Self::Text(text) | Self::Raw(text) => format!("{:?}", shortened(&without_password(text))),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// Keys and their values, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table(pub(crate) Vec<Entry>);

/// A key of a table, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_position: Position,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }
}

/// Shortens a text, so that a huge value does not make the message about it huge.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
