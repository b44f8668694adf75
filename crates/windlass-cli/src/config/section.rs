//! Reads one table of the tree, key by key. A key that no call has requested by the end is unknown.

use std::time::Duration;

use windlass_core::span::parse_span;

use super::error::{ConfigError, ConfigErrors, suggest};
use super::tree::{Entry, Node, Position, Table, Value};

/// A table that is being read.
pub(crate) struct Section<'a, 'p> {
    /// The name as it is written, such as `[queues.high]`.
    name: String,
    table: Option<&'a Table>,
    known: Vec<&'static str>,
    errors: &'p mut ConfigErrors,
}

impl<'a, 'p> Section<'a, 'p> {
    /// The table of an entry. An entry that is no table is an error, and an empty table is read instead.
    pub(crate) fn of(name: impl Into<String>, node: Option<&'a Node>, errors: &'p mut ConfigErrors) -> Self {
        let name = name.into();
        let table = match node.map(|node| &node.value) {
            None | Some(Value::Null) => None,
            Some(Value::Table(table)) => Some(table),
            Some(other) => {
                let message = format!("expected {name} to be a table, got {}", other.describe());
                errors.push(ConfigError::at(
                    &node.expect("an entry with a value has a node").position,
                    message,
                ));
                None
            }
        };
        Self { name, table, known: Vec::new(), errors }
    }

    /// The top level of the tree.
    pub(crate) fn top(table: &'a Table, errors: &'p mut ConfigErrors) -> Self {
        Self { name: "the top level".to_owned(), table: Some(table), known: Vec::new(), errors }
    }

    /// The value of a key, if it is present and valid. An invalid value adds an error.
    pub(crate) fn get<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        match read(&entry.node.value) {
            Ok(value) => Some(value),
            Err(why) => {
                let message = format!("`{key}` in {}: {why}", self.name);
                self.errors.push(ConfigError::at(&entry.node.position, message));
                None
            }
        }
    }

    /// The entry of a key, as it was written.
    pub(crate) fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        self.known.push(key);
        self.table?.get(key)
    }

    /// The position of a key's value.
    pub(crate) fn position(&self, key: &str) -> Option<&'a Position> {
        Some(&self.table?.get(key)?.node.position)
    }

    /// The list of errors, to read a table inside this table.
    pub(crate) fn errors(&mut self) -> &mut ConfigErrors {
        self.errors
    }

    /// Adds an error for every key that no call has requested.
    pub(crate) fn finish(self) {
        let unknown = self.table.iter().flat_map(|table| &table.0);
        for entry in unknown.filter(|entry| !self.known.contains(&entry.key.as_str())) {
            let message = format!("unknown key `{}` in {}", super::tree::shortened(&entry.key), self.name);
            let hint = suggest(&entry.key, self.known.iter().copied());
            self.errors.push(ConfigError::at(&entry.key_position, message).hint(hint));
        }
    }
}

/// A text that is not empty.
pub(crate) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) | Value::Raw(text) if !text.is_empty() => Ok(text.clone()),
        other => Err(format!("expected a text, got {}", other.describe())),
    }
}

/// A flag: true or false.
pub(crate) fn boolean(value: &Value) -> Result<bool, String> {
    let wrong = || format!("expected true or false, got {}", value.describe());
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::Raw(text) => windlass::select::flag(text).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// A span of time such as `30s`, within limits.
pub(crate) fn span(shortest: Duration, longest: Duration) -> impl Fn(&Value) -> Result<Duration, String> {
    move |value| {
        let span = any_span(value)?;
        if (shortest..=longest).contains(&span) {
            return Ok(span);
        }
        let (from, to) = (windlass_core::span::show_span(shortest), windlass_core::span::show_span(longest));
        Err(format!("expected a span of time from {from} to {to}, got {}", value.describe()))
    }
}

/// A span of time such as `30s`.
pub(crate) fn any_span(value: &Value) -> Result<Duration, String> {
    match value {
        Value::Text(text) | Value::Raw(text) => parse_span(text).map_err(|why| why.to_string()),
        Value::Int(number) => Err(format!(
            "expected a span of time such as 250ms, 30s or 5m, got the bare number {number}; write \"{number}s\" for seconds"
        )),
        other => Err(format!("expected a span of time such as 250ms, 30s or 5m, got {}", other.describe())),
    }
}

/// A whole number within limits.
pub(crate) fn whole(least: i64, most: i64) -> impl Fn(&Value) -> Result<i64, String> {
    move |value| {
        let number = match value {
            Value::Int(number) => Some(*number),
            Value::Raw(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let range =
                if most == i64::MAX { format!("from {least}") } else { format!("from {least} to {most}") };
            format!("expected a whole number {range}, got {}", value.describe())
        })
    }
}

/// One word out of several.
pub(crate) fn word<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Value) -> Result<T, String> {
    move |value| {
        let known = || words.iter().map(|(word, _)| *word);
        let wrong = || {
            format!("expected one of {}, got {}", known().collect::<Vec<_>>().join(", "), value.describe())
        };
        let (Value::Text(got) | Value::Raw(got)) = value else { return Err(wrong()) };
        let hit = words.iter().find(|(word, _)| *word == got);
        hit.map(|(_, meaning)| *meaning).ok_or_else(|| match super::error::nearest(got, known()) {
            Some(near) => format!("{}; did you mean `{near}`?", wrong()),
            None => wrong(),
        })
    }
}
